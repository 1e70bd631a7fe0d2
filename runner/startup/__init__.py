"""The start of a run: checks, command lines, how long it may take, whether it serves, and the greeting."""
