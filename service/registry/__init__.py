"""What is served, by name: models, and the endpoints that share requests out among them."""
