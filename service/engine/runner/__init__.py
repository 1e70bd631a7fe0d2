"""From a step to its results: the batch, the backend, the sampler."""
