"""Embeddings and rankings: requests to values, and vectors and scores to messages."""
