"""The tokens of prompts: their control tokens, their number, and their truncation."""
