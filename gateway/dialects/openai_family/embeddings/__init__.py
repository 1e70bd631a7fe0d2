"""Embeddings in the JSON of OpenAI's family: request bodies, and vectors as numbers or base64."""
