"""The servicers of what is served: models, their adapters, and endpoints."""
