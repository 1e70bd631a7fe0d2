"""Speculative decoding: sources of draft tokens, and the choice of how many are worth computing.

A draft never changes a token: it is accepted only if it equals the token that is sampled.
"""
