"""Ranking: scores of documents for queries, by each kind of model."""
