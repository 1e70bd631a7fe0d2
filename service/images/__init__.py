"""Images of requests: fetch, decode and process them for a model."""
