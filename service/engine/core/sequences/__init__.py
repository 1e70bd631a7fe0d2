"""Sequences: one choice of a request during generation, with its tokens, text and constraint."""
