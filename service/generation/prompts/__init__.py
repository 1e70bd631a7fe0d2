"""Prompts: conversations, raw text or tokens, and images."""
