"""Constraints on what a choice says, compiled: masks of allowed tokens, one state a choice."""
