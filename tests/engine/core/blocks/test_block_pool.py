"""BlockPool: the holders of blocks, lookup of cached content, and the order of eviction."""

from __future__ import annotations

import pytest

from service.engine.core.blocks.block_pool import BlockPool
from service.engine.core.blocks.block_tables import CachedPrefix
from service.engine.core.sequences.sequence import Sequence
from tests.engine.fakes import group_of, request
from tests.engine.paged_runner import BLOCK_SIZE


def sequence_of(prompt: str, cache_salt: str = "") -> Sequence:
    return group_of(request(prompt, cache_salt=cache_salt)).sequences[0]


def fill(pool: BlockPool, prompt: str, cache_salt: str = "") -> Sequence:
    """Return a sequence whose whole prompt is in the cache; it holds the blocks that were found there."""
    sequence = sequence_of(prompt, cache_salt)
    found = found_of(pool, sequence)
    pool.hold(sequence, pool.find(sequence))
    num_missing = pool.num_blocks_for(len(sequence.token_ids)) - len(found)
    block_ids = pool.allocate(num_missing, found[-1] if found else None)
    assert block_ids is not None
    sequence.block_table.extend(block_ids)
    pool.publish(sequence, len(found), len(sequence.token_ids) // pool.block_size)
    return sequence


def found_of(pool: BlockPool, sequence: Sequence) -> list[int]:
    """Return the cached blocks of a sequence in a pool with one group."""
    (table,) = pool.find(sequence).tables
    return table


@pytest.mark.parametrize(("num_tokens", "num_blocks"), [(0, 0), (1, 1), (4, 1), (5, 2), (8, 2), (9, 3)])
def test_pool_counts_a_partly_filled_block(num_tokens: int, num_blocks: int) -> None:
    """The number of blocks for a number of tokens is rounded up."""
    assert BlockPool(8, BLOCK_SIZE).num_blocks_for(num_tokens) == num_blocks


def test_pool_allocates_adjacent_blocks() -> None:
    """A sequence gets ascending, adjacent blocks while enough empty ones follow its last block."""
    pool = BlockPool(16, BLOCK_SIZE)
    first = pool.allocate(3, num_expected=16)
    second = pool.allocate(2, num_expected=4)
    assert first == [0, 1, 2]
    assert second == [12, 13]
    assert pool.allocate(1, after=2) == [3]
    assert pool.allocate(2, after=13) == [14, 15]


def test_pool_allocates_all_blocks_or_none() -> None:
    """An allocation of more blocks than are free changes nothing."""
    pool = BlockPool(4, BLOCK_SIZE)
    assert pool.allocate(5) is None
    assert pool.num_free_blocks == 4
    assert pool.allocate(4) == [0, 1, 2, 3]
    assert pool.allocate(1) is None


def test_pool_finds_full_blocks_of_an_equal_prefix() -> None:
    """Full blocks are found up to the first one that differs."""
    pool = BlockPool(16, BLOCK_SIZE)
    held = fill(pool, "aaaabbbbcccc")
    assert found_of(pool, sequence_of("aaaabbbbdddd")) == list(held.block_table[:2])
    assert found_of(pool, sequence_of("xaaabbbbcccc")) == []
    assert found_of(pool, sequence_of("aaaaccccbbbb")) == list(held.block_table[:1])


@pytest.mark.parametrize(("prompt", "num_found"), [("aaaa", 0), ("aaaab", 1), ("aaaabbb", 1), ("aaaabbbb", 1)])
def test_pool_leaves_a_token_to_compute(prompt: str, num_found: int) -> None:
    """The last token is never taken from the cache, because its logits yield the next token."""
    pool = BlockPool(16, BLOCK_SIZE)
    fill(pool, "aaaabbbbcccc")
    assert len(found_of(pool, sequence_of(prompt))) == num_found


def test_pool_separates_salts() -> None:
    """The same tokens with another salt are different content."""
    pool = BlockPool(16, BLOCK_SIZE)
    fill(pool, "aaaabbbb", cache_salt="one")
    assert len(found_of(pool, sequence_of("aaaabbbb", "one"))) == 1
    assert found_of(pool, sequence_of("aaaabbbb", "two")) == []
    assert found_of(pool, sequence_of("aaaabbbb")) == []


def test_pool_finds_the_same_content_only_after_the_same_prefix() -> None:
    """A block's hash covers all tokens before it, because its keys and values depend on them."""
    pool = BlockPool(16, BLOCK_SIZE)
    fill(pool, "aaaabbbb.")
    other = fill(pool, "ccccbbbb.")
    assert found_of(pool, sequence_of("ccccbbbb.")) == list(other.block_table[:2])


def test_pool_shares_blocks_and_frees_them_with_the_last_holder() -> None:
    """A shared block becomes free when its last holder releases it, and not before."""
    pool = BlockPool(16, BLOCK_SIZE)
    first = fill(pool, "aaaabbbbc")
    second = fill(pool, "aaaabbbbd")
    assert list(first.block_table[:2]) == list(second.block_table[:2])
    assert pool.num_free_blocks == 16 - 4
    pool.check([first, second])
    pool.release(first)
    assert pool.num_free_blocks == 16 - 3
    pool.check([second])
    pool.release(second)
    assert pool.num_free_blocks == 16
    assert pool.num_cached_blocks == 2
    pool.check([])


def test_pool_evicts_the_least_recently_used_blocks() -> None:
    """Cached blocks are evicted in the order of their release, and a sequence's last block before its first."""
    pool = BlockPool(6, BLOCK_SIZE)
    old, new = fill(pool, "aaaabbbb."), fill(pool, "ccccdddd.")
    pool.release(old)
    pool.release(new)
    assert (pool.num_cached_blocks, pool.num_free_blocks) == (4, 6)
    for num_taken, num_found in [(2, (2, 2)), (3, (1, 2)), (4, (0, 2)), (5, (0, 1)), (6, (0, 0))]:
        assert pool.allocate(2 if num_taken == 2 else 1) is not None
        assert (
            len(found_of(pool, sequence_of("aaaabbbb."))),
            len(found_of(pool, sequence_of("ccccdddd."))),
        ) == num_found


def test_pool_counts_a_new_use_as_recent() -> None:
    """A block that was held again is evicted after blocks that were released in the meantime."""
    pool = BlockPool(6, BLOCK_SIZE)
    old, new = fill(pool, "aaaab"), fill(pool, "ccccd")
    pool.release(old)
    pool.release(new)
    pool.release(fill(pool, "aaaae"))
    assert pool.allocate(5) is not None
    assert len(found_of(pool, sequence_of("aaaab"))) == 1
    assert len(found_of(pool, sequence_of("ccccd"))) == 0


def test_pool_never_evicts_a_held_block() -> None:
    """A block that a sequence holds stays findable while the rest of the cache is allocated."""
    pool = BlockPool(6, BLOCK_SIZE)
    held = fill(pool, "aaaabbbb.")
    assert pool.allocate(3) is not None
    assert pool.allocate(1) is None
    assert found_of(pool, sequence_of("aaaabbbb.")) == list(held.block_table[:2])


def test_pool_finds_adjacent_blocks_in_a_full_cache() -> None:
    """If no block is empty, the pool evicts cached ones to form a run, of at most a quarter of all blocks."""
    pool = BlockPool(64, BLOCK_SIZE)
    for letter in "abcdefgh":
        pool.release(fill(pool, letter * 32))
    assert pool.num_cached_blocks == 64
    block_ids = pool.allocate(1, num_expected=4)
    assert block_ids is not None
    for _ in range(3):
        block_ids += pool.allocate(1, after=block_ids[-1]) or []
    assert block_ids == list(range(block_ids[0], block_ids[0] + 4))
    assert pool.num_cached_blocks == 64 - 1 - 4
    assert pool.allocate(1, num_expected=1000) is not None
    assert pool.num_cached_blocks == 64 - 4 - 16


def test_pool_indexes_one_block_of_equal_contents() -> None:
    """Of two blocks with equal content that were computed at the same time, only one is found.

    The other one is empty after its release.
    """
    pool = BlockPool(16, BLOCK_SIZE)
    twins = [sequence_of("aaaab"), sequence_of("aaaab")]
    for twin in twins:
        twin.block_table.extend(pool.allocate(2) or [])
    for twin in twins:
        pool.publish(twin, 0, 1)
    assert found_of(pool, sequence_of("aaaab")) == list(twins[0].block_table[:1])
    pool.release(twins[0])
    pool.release(twins[1])
    assert (pool.num_cached_blocks, pool.num_free_blocks) == (1, 16)
    pool.check([])


def test_pool_check_finds_a_lost_block() -> None:
    """`check` raises an error for a block that is counted as held but is in no block table."""
    pool = BlockPool(4, BLOCK_SIZE)
    assert pool.allocate(1) == [3]
    with pytest.raises(RuntimeError, match="block 3 is in 0 block tables"):
        pool.check([])


def test_pool_check_finds_a_block_with_two_owners() -> None:
    """`check` raises an error for a partly filled block in two block tables, whatever the counts are."""
    pool = BlockPool(4, BLOCK_SIZE)
    first = fill(pool, "aa")
    second = sequence_of("bb")
    second.block_table.extend(first.block_table)
    with pytest.raises(RuntimeError, match="block 3 is in 2 block tables"):
        pool.check([first, second])
    second.block_table.pop()
    pool.hold(second, CachedPrefix(1, [list(first.block_table)]))
    with pytest.raises(RuntimeError, match="block 3 is shared but not full"):
        pool.check([first, second])
