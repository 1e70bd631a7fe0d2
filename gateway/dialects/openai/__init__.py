"""The OpenAI style."""
