"""The client of an engine on the event loop: admission, open requests and output streams."""
