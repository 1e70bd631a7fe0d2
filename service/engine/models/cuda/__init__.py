"""Triton kernels of the torch decoder for CUDA devices. A row's bits don't depend on the other rows of a batch."""
