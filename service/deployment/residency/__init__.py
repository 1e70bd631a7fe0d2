"""Models on demand: which models are in memory, and the requests that wait for one that isn't."""
