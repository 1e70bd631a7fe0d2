"""API keys: their format, the file or store that has them, and the ring that finds a key by its id."""
