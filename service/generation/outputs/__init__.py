"""The outputs of an engine, and the events of an answer."""
