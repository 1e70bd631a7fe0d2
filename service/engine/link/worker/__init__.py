"""The worker process of an engine: its start, its program, and the messages between it and its parent."""
