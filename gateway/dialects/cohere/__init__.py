"""Cohere's chats and embeddings, of the second version of its API."""
