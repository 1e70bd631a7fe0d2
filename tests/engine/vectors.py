"""Vectors that can be computed by hand."""

from __future__ import annotations

from collections import abc

from service.generation.requests.embedding import TokenIds


def vector_of(token_ids: abc.Sequence[int] | TokenIds) -> list[float]:
    """Return the vector that a test's encoder computes for an input: its length, sum, first and last token."""
    return [len(token_ids), float(sum(token_ids)), float(token_ids[0]), float(token_ids[-1])]
