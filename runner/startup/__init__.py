"""The start of a run: how long it may take, whether it serves, and the greeting."""
