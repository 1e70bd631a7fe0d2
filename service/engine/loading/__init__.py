"""Load a model from a folder or a hub id, and build an engine's core."""
