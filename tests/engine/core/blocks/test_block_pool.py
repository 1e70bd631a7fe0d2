"""BlockPool: who holds which block, what is found again, and what goes first."""

from __future__ import annotations

import pytest

from service.engine.core.blocks.block_pool import BlockPool
from service.engine.core.sequences.sequence import Sequence
from tests.engine.fakes import BLOCK_SIZE, group_of, request


def sequence_of(prompt: str, cache_salt: str = "") -> Sequence:
    return group_of(request(prompt, cache_salt=cache_salt)).sequences[0]


def fill(pool: BlockPool, prompt: str, cache_salt: str = "") -> Sequence:
    """A sequence whose whole prompt is in the cache, with what was found there held."""
    sequence = sequence_of(prompt, cache_salt)
    found = pool.find(sequence)
    pool.hold(found)
    sequence.block_table.extend(found)
    num_missing = pool.num_blocks_for(len(sequence.token_ids)) - len(found)
    block_ids = pool.allocate(num_missing, found[-1] if found else None)
    assert block_ids is not None
    sequence.block_table.extend(block_ids)
    pool.publish(sequence, len(found), len(sequence.token_ids) // pool.block_size)
    return sequence


@pytest.mark.parametrize(("num_tokens", "num_blocks"), [(0, 0), (1, 1), (4, 1), (5, 2), (8, 2), (9, 3)])
def test_pool_counts_a_begun_block_as_a_block(num_tokens: int, num_blocks: int) -> None:
    """Tokens take whole blocks."""
    assert BlockPool(8, BLOCK_SIZE).num_blocks_for(num_tokens) == num_blocks


def test_pool_allocates_neighbours() -> None:
    """A sequence's blocks ascend without a gap while there is space behind them, as much as it asked for or more."""
    pool = BlockPool(16, BLOCK_SIZE)
    first = pool.allocate(3, num_expected=16)
    second = pool.allocate(2, num_expected=4)
    assert first == [0, 1, 2]
    assert second == [12, 13]
    assert pool.allocate(1, after=2) == [3]
    assert pool.allocate(2, after=13) == [14, 15]


def test_pool_gives_all_or_nothing() -> None:
    """Too large a wish changes nothing."""
    pool = BlockPool(4, BLOCK_SIZE)
    assert pool.allocate(5) is None
    assert pool.num_free_blocks == 4
    assert pool.allocate(4) == [0, 1, 2, 3]
    assert pool.allocate(1) is None


def test_pool_finds_full_blocks_of_an_equal_beginning() -> None:
    """Full blocks are found up to the first that differs."""
    pool = BlockPool(16, BLOCK_SIZE)
    held = fill(pool, "aaaabbbbcccc")
    assert pool.find(sequence_of("aaaabbbbdddd")) == list(held.block_table[:2])
    assert pool.find(sequence_of("xaaabbbbcccc")) == []
    assert pool.find(sequence_of("aaaaccccbbbb")) == list(held.block_table[:1])


@pytest.mark.parametrize(("prompt", "num_found"), [("aaaa", 0), ("aaaab", 1), ("aaaabbb", 1), ("aaaabbbb", 1)])
def test_pool_leaves_a_token_to_compute(prompt: str, num_found: int) -> None:
    """The last token's logits give the next, so it is never taken as computed."""
    pool = BlockPool(16, BLOCK_SIZE)
    fill(pool, "aaaabbbbcccc")
    assert len(pool.find(sequence_of(prompt))) == num_found


def test_pool_keeps_salts_apart() -> None:
    """The same tokens under another salt are another content."""
    pool = BlockPool(16, BLOCK_SIZE)
    fill(pool, "aaaabbbb", cache_salt="one")
    assert len(pool.find(sequence_of("aaaabbbb", "one"))) == 1
    assert pool.find(sequence_of("aaaabbbb", "two")) == []
    assert pool.find(sequence_of("aaaabbbb")) == []


def test_pool_finds_the_same_content_only_after_the_same_beginning() -> None:
    """A block's content is named with all that stands before it, since its keys and values depend on that."""
    pool = BlockPool(16, BLOCK_SIZE)
    fill(pool, "aaaabbbb.")
    other = fill(pool, "ccccbbbb.")
    assert pool.find(sequence_of("ccccbbbb.")) == list(other.block_table[:2])


def test_pool_shares_blocks_and_frees_them_with_the_last_holder() -> None:
    """A shared block is free when nobody holds it, and not before."""
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


def test_pool_gives_up_what_was_held_longest_ago() -> None:
    """Cached blocks go in the order in which they were let go, the last block of a sequence before its first."""
    pool = BlockPool(6, BLOCK_SIZE)
    old, new = fill(pool, "aaaabbbb."), fill(pool, "ccccdddd.")
    pool.release(old)
    pool.release(new)
    assert (pool.num_cached_blocks, pool.num_free_blocks) == (4, 6)
    for num_taken, num_found in [(2, (2, 2)), (3, (1, 2)), (4, (0, 2)), (5, (0, 1)), (6, (0, 0))]:
        assert pool.allocate(2 if num_taken == 2 else 1) is not None
        assert (len(pool.find(sequence_of("aaaabbbb."))), len(pool.find(sequence_of("ccccdddd.")))) == num_found


def test_pool_counts_a_new_use_as_recent() -> None:
    """A block that was held again goes after those that were let go meanwhile."""
    pool = BlockPool(6, BLOCK_SIZE)
    old, new = fill(pool, "aaaab"), fill(pool, "ccccd")
    pool.release(old)
    pool.release(new)
    pool.release(fill(pool, "aaaae"))
    assert pool.allocate(5) is not None
    assert len(pool.find(sequence_of("aaaab"))) == 1
    assert len(pool.find(sequence_of("ccccd"))) == 0


def test_pool_never_gives_up_a_held_block() -> None:
    """What a sequence holds stays found while the rest of the cache is taken."""
    pool = BlockPool(6, BLOCK_SIZE)
    held = fill(pool, "aaaabbbb.")
    assert pool.allocate(3) is not None
    assert pool.allocate(1) is None
    assert pool.find(sequence_of("aaaabbbb.")) == list(held.block_table[:2])


def test_pool_finds_neighbours_in_a_cache_that_is_full() -> None:
    """A run is made of old contents when nothing is empty any more, of no more than a quarter of all blocks."""
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


def test_pool_keeps_one_name_for_equal_contents() -> None:
    """Of two blocks that were computed alike at the same time one is found; the other is empty when let go."""
    pool = BlockPool(16, BLOCK_SIZE)
    twins = [sequence_of("aaaab"), sequence_of("aaaab")]
    for twin in twins:
        twin.block_table.extend(pool.allocate(2) or [])
    for twin in twins:
        pool.publish(twin, 0, 1)
    assert pool.find(sequence_of("aaaab")) == list(twins[0].block_table[:1])
    pool.release(twins[0])
    pool.release(twins[1])
    assert (pool.num_cached_blocks, pool.num_free_blocks) == (1, 16)
    pool.check([])


def test_pool_check_finds_a_lost_block() -> None:
    """A block that is counted as held but is in no table is an error."""
    pool = BlockPool(4, BLOCK_SIZE)
    assert pool.allocate(1) == [3]
    with pytest.raises(RuntimeError, match="block 3 is in 0 block tables"):
        pool.check([])


def test_pool_check_finds_a_block_with_two_owners() -> None:
    """A block that is not full can't be in two tables, whatever the counts say."""
    pool = BlockPool(4, BLOCK_SIZE)
    first = fill(pool, "aa")
    second = sequence_of("bb")
    second.block_table.extend(first.block_table)
    with pytest.raises(RuntimeError, match="block 3 is in 2 block tables"):
        pool.check([first, second])
    pool.hold(first.block_table)
    with pytest.raises(RuntimeError, match="block 3 is shared but not full"):
        pool.check([first, second])
