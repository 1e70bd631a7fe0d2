"""The queue of sequences: one per API key, and the order in which keys are served."""
