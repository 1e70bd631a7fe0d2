"""Tensor parallelism: one model shared out to several processes."""
