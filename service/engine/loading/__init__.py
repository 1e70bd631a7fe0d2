"""From a model's folder or hub id to an engine's core."""
