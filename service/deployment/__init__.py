"""The models, adapters and endpoints that should be served, and the changes that replicas share to get there."""
