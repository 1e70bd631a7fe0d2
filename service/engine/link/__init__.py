"""The connection between an engine's client and its core, which runs on a thread or in a worker process."""
