"""Tensor parallelism: one model, sharded to several processes."""
