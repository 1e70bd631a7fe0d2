"""The models, adapters and endpoints that should be served, and the one reconciler that serves them."""
