"""Images of requests: where their bytes come from, and what a model sees of them."""
