"""The surface of each dialect: its operations with examples."""
