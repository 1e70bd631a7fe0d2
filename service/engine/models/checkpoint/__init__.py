"""Reading a model's files: configuration, tensors, packed weights, adapters."""
