"""Read a model's files: configuration, tensors, packed weights and adapters."""
