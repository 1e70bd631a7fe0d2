"""The half of an engine on the event loop: admission, open requests, streams of output."""
