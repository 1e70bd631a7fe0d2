"""The response store in one SQLite file."""
