"""The index in memory that outlives its process: it names only whole contents, whenever the process dies."""

from __future__ import annotations

import os
import random

import pytest

from service.engine.core.blocks.cache_index import ROW_BYTES, CacheIndex
from service.engine.core.blocks.cache_memory import CacheMemory
from service.engine.core.engine_core import SampledToken
from service.engine.core.step import Step
from service.engine.interface.cache_group import CacheGroup
from service.generation.errors import SequenceError
from tests.engine.fakes import Bench, config_of, request
from tests.engine.paged_runner import BLOCK_SIZE, PagedRunner, StateRunner, sums

SHARED = "system: be brief and answer. "
SEAL = bytes(range(32))


def index_of(num_rows: int) -> tuple[bytearray, CacheIndex]:
    memory = bytearray(num_rows * ROW_BYTES)
    return memory, CacheIndex(memoryview(memory), num_rows)


def test_contents_are_in_the_order_of_use() -> None:
    """Held rows are first, in the order of their prefix; then free ones, the one released last first."""
    memory, index = index_of(5)
    for row in range(5):
        index.put(row, bytes([row]) * 32)
    for row in (4, 3):
        index.release(row)
    index.drop(1)
    expected = [(bytes([row]) * 32, row) for row in (0, 2, 3, 4)]
    assert index.contents() == expected
    assert CacheIndex(memoryview(memory), 5).contents() == expected
    index.hold(3)
    assert [row for _, row in index.contents()] == [0, 2, 3, 4]
    index.clear()
    assert index.contents() == []


def test_a_file_with_another_seal_or_size_is_cleared() -> None:
    """Only an equal seal and size keep the contents."""
    file = os.memfd_create("test")
    shapes = [(8, 5000), (2, 100)]
    memory = CacheMemory(file, SEAL, shapes)
    memory.block_index.put(3, b"a" * 32)
    memory.state_index.put(1, b"a" * 32)
    os.pwrite(file, b"content", memory.offsets[1])
    again = CacheMemory(file, SEAL, shapes)
    assert [(entry.kind, entry.row) for entry in again.entries()] == [(0, 3), (1, 1)]
    for seal, sizes in ((SEAL[::-1], shapes), (SEAL, [(9, 5000), (2, 100)])):
        other = CacheMemory(file, seal, sizes)
        assert other.entries() == []
        assert os.pread(file, 7, memory.offsets[1]) == bytes(7)
        other.block_index.put(3, b"a" * 32)
    os.close(file)


class Mortal(PagedRunner):
    """A runner that dies at an instant before, within or after a step: what it leaves then is `left`."""

    def __init__(self, index_memory: list[bytearray], num_instants: int) -> None:
        super().__init__()
        self.index_memory, self.num_instants = index_memory, num_instants
        self.left: Mortal | None = None

    def run(self, step: Step) -> list[SampledToken | SequenceError | None]:
        self._die()
        before = dict(self.memory)
        results = super().run(step)
        after = dict(self.memory)
        changed = [key for key in after if before.get(key) != after[key]]
        self.memory = before | {key: after[key] for key in changed[: len(changed) // 2]}
        self._die()
        self.memory = after
        self._die()
        return results

    def copy(self, num_instants: int) -> Mortal:
        """Return a new runner with the same memory."""
        copied = type(self)([bytearray(each) for each in self.index_memory], num_instants)
        copied.memory = dict(self.memory)
        return copied

    def _die(self) -> None:
        self.num_instants -= 1
        if self.num_instants == 0:
            self.left = self.copy(0)


class MortalWithStates(Mortal, StateRunner):
    """The same with recurrent states, which are written with the last tokens."""

    def copy(self, num_instants: int) -> Mortal:
        copied = super().copy(num_instants)
        assert isinstance(copied, MortalWithStates)
        copied.states = {slot: list(tokens) for slot, tokens in self.states.items()}
        return copied


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["blocks", "windows", "states", "few states"])
def test_a_process_that_dies_at_any_instant_leaves_true_contents(kind: str) -> None:
    """The next core adopts what the index names at that instant, and its answers are those of a new one.

    The runner compares each token that it reads from a block or a state with the sequence's own.
    """
    draw = random.Random(0)
    groups = [CacheGroup(), CacheGroup(9)] if kind == "windows" else [CacheGroup()]
    sizes = {"num_blocks": 40, "max_model_len": 96, "max_batch_tokens": 24, "max_batch_sequences": 4}
    num_states = {"states": 8, "few states": 5}.get(kind, 0)
    memory = [bytearray(num_rows * ROW_BYTES) for num_rows in (40, num_states)]
    runner = MortalWithStates(memory, 30) if num_states else Mortal(memory, 30)
    num_deaths = num_adopted = num_found = num_answers = 0
    for _ in range(30):
        blocks, slots = runner.index_memory
        bench = Bench(
            config_of(**sizes),
            runner=runner,
            cache_groups=groups,
            num_states=num_states,
            indexes=(CacheIndex(memoryview(blocks), 40), CacheIndex(memoryview(slots), num_states)),
        )
        num_adopted += bench.core.stats().num_adopted_blocks
        prompts = [SHARED[: draw.randrange(30)] + "".join(draw.choices("ab", k=draw.randint(1, 40))) for _ in range(8)]
        wanted = [bench.add(request(each, max_tokens=draw.randint(1, 25), ignore_eos=True)) for each in prompts]
        while bench.core.has_work and runner.left is None:
            bench.step()
        num_found += bench.core.stats().num_prefix_hit_tokens
        for group, prompt in zip(wanted, prompts, strict=True):
            if group.is_finished:
                num_tokens = group.sequences[0].num_generated_tokens
                assert bench.tokens(group.serial) == sums(prompt.encode(), num_tokens, 0)
                num_answers += 1
        num_deaths += runner.left is not None
        runner = (runner.left or runner).copy(draw.randrange(1, 200))
    assert num_deaths > 10
    assert num_answers > 50
    assert num_adopted > 100
    assert num_found > 100 * BLOCK_SIZE
