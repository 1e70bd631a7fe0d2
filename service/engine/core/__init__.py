"""The engine's core: it schedules steps, owns sequences and KV cache blocks, and accepts sampled tokens.

It does not import torch, so that it can be tested in milliseconds.
"""
