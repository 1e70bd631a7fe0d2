"""The runner of a step: it builds the batch, calls the backend and samples tokens."""
