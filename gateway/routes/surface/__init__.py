"""The surface of a dialect: its operations, one per method and path."""
