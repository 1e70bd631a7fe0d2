"""Ollama's chats, generations, embeddings and descriptions of models."""
