"""Sequences: the choices of a request during generation, with their tokens, text and constraint."""
