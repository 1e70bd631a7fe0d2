"""The cache in files: the cached prefixes of an engine that has stopped, for the engine that starts next."""
