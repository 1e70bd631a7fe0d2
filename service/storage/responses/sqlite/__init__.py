"""The store of responses in one SQLite file."""
