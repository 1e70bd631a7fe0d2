"""Ranking: what scores documents for queries, by each kind of model."""
