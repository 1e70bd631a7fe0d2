"""Backends that run transformers' own modules."""
