"""From conversations and texts to a model's tokens."""
