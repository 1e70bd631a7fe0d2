"""Speculation: drafts of next tokens, and how many of them pay."""
