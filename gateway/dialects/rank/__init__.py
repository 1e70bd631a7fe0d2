"""Reranking and scoring for Cohere's, Jina's and vLLM's clients."""
