"""Backends: what computes a batch's logits, and the table that chooses one for a model."""
