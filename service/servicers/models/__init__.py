"""The servicers of models, of their adapters, and of endpoints."""
