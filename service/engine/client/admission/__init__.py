"""Admission of requests to an engine: how long they would wait, and which are rejected on arrival."""
