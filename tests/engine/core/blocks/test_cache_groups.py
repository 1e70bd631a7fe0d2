"""Cache groups: blocks that no later token attends to are given back, and a prefix is found as far as all groups do."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engine.core.blocks.block_pool import BlockPool
from service.engine.core.sequences.choice_seed import choice_seed
from service.engine.core.sequences.sequence import NO_BLOCK, Sequence
from service.engine.interface.cache_group import ONE_GROUP, CacheGroup, max_blocks
from service.engine.interface.config import max_sequence_len
from tests.engine.core.drafters import SumDrafter
from tests.engine.fakes import Bench, config_of, group_of, request
from tests.engine.paged_runner import BLOCK_SIZE, sums

GROUPS = (CacheGroup(), CacheGroup(6))  # with blocks of 4 tokens


def sequence_of(prompt: str) -> Sequence:
    return group_of(request(prompt)).sequences[0]


def compute(pool: BlockPool, sequence: Sequence, num_tokens: int) -> None:
    """Compute tokens of a sequence as the scheduler does."""
    assert pool.extend(sequence, num_tokens)
    first = sequence.num_computed_tokens // BLOCK_SIZE
    sequence.num_computed_tokens += num_tokens
    pool.publish(sequence, first, sequence.num_computed_tokens // BLOCK_SIZE)
    pool.give_back(sequence)
    pool.check([sequence])


@pytest.mark.parametrize(
    ("num_tokens", "max_chunk", "num_blocks"),
    [(1, 1, 1), (4, 1, 1), (8, 8, 2), (12, 1, 3), (100, 1, 3), (100, 2, 3), (100, 3, 3), (100, 4, 3), (100, 8, 4)],
)
def test_a_window_needs_few_blocks(num_tokens: int, max_chunk: int, num_blocks: int) -> None:
    """The blocks of a window of 6 tokens depend on the chunk, and not on the sequence's length."""
    assert CacheGroup(6).max_blocks(num_tokens, max_chunk, BLOCK_SIZE) == num_blocks
    assert CacheGroup().max_blocks(num_tokens, max_chunk, BLOCK_SIZE) == -(-num_tokens // BLOCK_SIZE)


@given(window=st.integers(1, 40), chunk=st.integers(1, 30), start=st.integers(0, 100))
def test_the_most_blocks_hold_any_chunk(window: int, chunk: int, start: int) -> None:
    """The bound covers what a chunk sees and what it adds, wherever it starts; some start needs all of it."""
    group = CacheGroup(window)

    def num_held(first_token: int) -> int:
        first = group.first_visible(first_token) // BLOCK_SIZE
        return -(-(first_token + chunk) // BLOCK_SIZE) - first

    most = group.max_blocks(10_000, chunk, BLOCK_SIZE)
    assert num_held(start) <= most
    assert max(num_held(each) for each in range(200, 200 + BLOCK_SIZE)) == most


def test_a_long_context_takes_few_blocks() -> None:
    """A context of 32,768 tokens of Gemma 3's layers, one full in six, takes below 0.3 of the blocks of full layers.

    It takes the most while the last chunk of its prompt is computed, and never more than the bound.
    """
    groups = [CacheGroup()] + 5 * [CacheGroup(512)]
    pool = BlockPool(6 * 2048, 16, groups=groups)
    (sequence,) = group_of(request([7] * 32_768), max_model_len=40_000).sequences
    held = []
    for num_new in (*[2048] * 15, 1900, *[1] * 148):
        assert pool.extend(sequence, num_new)
        held.append(pool.num_blocks - pool.num_free_blocks)
        sequence.num_computed_tokens += num_new
        pool.give_back(sequence)
        assert pool.num_blocks - pool.num_free_blocks == sequence.num_blocks
    full = max_blocks(6 * ONE_GROUP, 32_768, 2048, 16)
    assert full == 6 * 2048
    assert max(held) <= max_blocks(groups, 32_768, 2048, 16) < 0.24 * full
    assert held[-1] <= max_blocks(groups, 32_768, 1, 16) < 0.19 * full
    pool.check([sequence])


def test_a_sequence_can_be_as_long_as_its_groups_allow() -> None:
    """With windows, the cache holds a longer sequence than it has tokens in blocks."""
    config = config_of(num_blocks=20, max_model_len=1000, max_batch_tokens=8, max_batch_sequences=8)
    assert max_sequence_len(config) == 80
    assert max_sequence_len(config, GROUPS) == 4 * (20 - 4)
    assert max_sequence_len(config, [CacheGroup(6)]) == 1000
    assert max_sequence_len(config, [CacheGroup()] * 2) == 40


def test_a_window_gives_blocks_back() -> None:
    """After each chunk, the window's group holds only the blocks of visible tokens; the other one holds all."""
    pool = BlockPool(16, BLOCK_SIZE, groups=GROUPS)
    sequence = sequence_of("aaaabbbbccccddddeeee")
    held = []
    for _ in range(4):
        compute(pool, sequence, 4)
        held.append([sum(block_id != NO_BLOCK for block_id in table) for table in sequence.block_tables])
    assert held == [[1, 1], [2, 2], [3, 2], [4, 2]]
    assert sequence.num_blocks == 6
    assert pool.num_free_blocks == 10
    assert pool.num_cached_blocks == 2
    pool.release(sequence)
    assert (pool.num_free_blocks, pool.num_cached_blocks) == (16, 8)
    pool.check([sequence])


def test_a_prefix_needs_only_the_visible_blocks_of_a_window() -> None:
    """A prefix is found without the window's first blocks, and not beyond a lacking block of any group."""
    pool = BlockPool(16, BLOCK_SIZE, groups=GROUPS)
    first = sequence_of("aaaabbbbccccdddde")
    for _ in range(4):
        compute(pool, first, 4)
    tables = [list(table) for table in first.block_tables]
    found = pool.find(sequence_of("aaaabbbbccccddddf"))
    assert found.num_blocks == 4
    assert found.tables == [tables[0], [NO_BLOCK, NO_BLOCK, *tables[1][2:]]]
    shorter = pool.find(sequence_of("aaaabbbbccccx"))  # it needs a block that was given back, and is still cached
    assert (shorter.num_blocks, shorter.tables[0], shorter.tables[1][0]) == (3, tables[0][:3], NO_BLOCK)
    assert pool.num_free_among(shorter) == 1
    second = sequence_of("aaaabbbbccccx")
    pool.hold(second, shorter)
    second.num_computed_tokens = 12
    pool.check([first, second])
    pool.release(second)
    assert pool.allocate(10) is not None  # evicts both blocks that the window gave back
    assert pool.find(sequence_of("aaaabbbbccccx")).num_blocks == 0
    assert pool.find(sequence_of("aaaabbbbccccddddf")).num_blocks == 4


def test_check_finds_a_block_given_back_too_early() -> None:
    """`check` raises an error if a table lacks a block that later tokens attend to."""
    pool = BlockPool(16, BLOCK_SIZE, groups=GROUPS)
    sequence = sequence_of("aaaabbbbccccdddd")
    compute(pool, sequence, 12)
    sequence.num_computed_tokens = 8
    with pytest.raises(RuntimeError, match="the window 6 lacks a block"):
        pool.check([sequence])


@settings(max_examples=60)
@given(data=st.data())
def test_windows_do_not_change_answers(data: st.DataObject) -> None:
    """Each computed token finds all tokens that it attends to: in any batch, cached, chunked, preempted, drafted."""
    windows = st.lists(st.sampled_from([0, 1, 3, 4, 7, 12]), min_size=1, max_size=3)
    groups = [CacheGroup(window) for window in data.draw(windows, "windows")]
    bench = Bench(
        config_of(
            num_blocks=data.draw(st.integers(10, 25), "num_blocks") * len(groups),
            max_model_len=40,
            max_batch_tokens=data.draw(st.integers(4, 64), "max_batch_tokens"),
            max_batch_sequences=data.draw(st.integers(1, 4), "max_batch_sequences"),
            max_prefill_chunk=data.draw(st.integers(1, 64), "max_prefill_chunk"),
            prefix_caching=data.draw(st.booleans(), "prefix_caching"),
        ),
        cache_groups=groups,
        drafter=SumDrafter(wrong=0.3) if data.draw(st.booleans(), "drafts") else None,
    )
    prompts = data.draw(st.lists(st.text("ab", min_size=1, max_size=30), min_size=1, max_size=8), "prompts")
    for prompt in prompts:
        bench.add(request(prompt, max_tokens=9, n=data.draw(st.integers(1, 2), "n"), ignore_eos=True))
        for _ in range(data.draw(st.integers(0, 5), "steps")):
            bench.step()
    bench.run()
    bench.assert_idle()
    for serial, index in bench.outputs:
        assert bench.tokens(serial, index) == sums(prompts[serial].encode(), 9, choice_seed(0, index))
