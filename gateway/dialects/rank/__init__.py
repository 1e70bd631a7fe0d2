"""Reranking and scoring as Cohere's, Jina's and vLLM's clients ask for them."""
