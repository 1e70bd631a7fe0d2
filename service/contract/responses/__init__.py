"""Responses: requests to values, and events to the stream's messages and items."""
