"""GGUF files: their metadata, and their tensors as blocks."""
