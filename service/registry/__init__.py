"""Served models, and the endpoints that split requests among them, by name and caller."""
