"""The start of a run: checks, command lines, time limit, readiness, and the greeting."""
