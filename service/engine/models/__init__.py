"""Backends, which compute a batch's logits, and the table that selects a backend for a model."""
