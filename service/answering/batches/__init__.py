"""Files and batches: stored, answered by any process with the store, each request exactly once."""
