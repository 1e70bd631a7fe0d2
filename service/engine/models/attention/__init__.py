"""Attention over the paged KV cache, on the CPU and by a device's kernels."""
