"""Tensors of the open inference protocol: requests to messages of `sluice.v1`, answers to tensors."""
