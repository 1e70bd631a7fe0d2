"""Attention over the paged KV cache, on the CPU and with device kernels."""
