"""Fetch, decode and process the images of requests."""
