"""The deciding half of the engine: it schedules steps, owns sequences and KV cache blocks, and accepts sampled tokens.

It imports no torch, so that it can be tested in milliseconds.
"""
