"""Backends that run the model implementations of transformers."""
