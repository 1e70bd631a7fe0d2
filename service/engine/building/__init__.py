"""Construction of an engine from a folder with a model: its client, and its core on a thread or in a process."""
