"""Compiled output constraints: masks of allowed tokens, one state per choice."""
