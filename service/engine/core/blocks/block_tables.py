"""A sequence's block tables, one for each group of layers: the entries of a cached prefix, and their invariant."""

from __future__ import annotations

from collections import abc
from typing import NamedTuple

from service.engine.core.sequences.sequence import NO_BLOCK, Sequence
from service.engine.interface.cache_group import CacheGroup


class CachedPrefix(NamedTuple):
    """The longest cached prefix of a sequence: `num_blocks` blocks of tokens, and the first entries of its tables.

    A table has NO_BLOCK for tokens before the first that is visible in its group.
    """

    num_blocks: int
    tables: list[list[int]]


NO_PREFIX = CachedPrefix(0, [])


def check_tables(sequence: Sequence, groups: abc.Sequence[CacheGroup], block_size: int) -> None:
    """Raise RuntimeError if the tables differ in their lengths, or lack a block of a visible token."""
    if len(set(map(len, sequence.block_tables))) > 1:
        raise RuntimeError("the block tables of a sequence differ in their lengths")
    for group, table, num in zip(groups, sequence.block_tables, sequence.num_given_back, strict=False):
        given_back = [index for index, block_id in enumerate(table) if block_id == NO_BLOCK]
        if given_back != list(range(num)) or num * block_size > group.first_visible(sequence.num_computed_tokens):
            raise RuntimeError(f"a block table with the window {group.window} lacks a block")
