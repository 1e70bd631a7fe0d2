"""Stored objects in the OpenAI style: conversations, files, and batches with their lines."""
