"""The way from an engine's client to its core, on a thread or in a worker process."""
