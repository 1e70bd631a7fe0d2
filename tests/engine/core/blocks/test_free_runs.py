"""FreeRuns: a set of block ids that allocates adjacent ids."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engine.core.blocks.free_runs import FreeRuns


def test_free_runs_return_the_next_id() -> None:
    """The id after the given one is taken as long as it is free."""
    runs = FreeRuns(8)
    taken = [runs.take(None, 8)]
    for _ in range(7):
        taken.append(runs.take(taken[-1], 1))
    assert taken == list(range(8))
    assert runs.num_blocks == 0


def test_free_runs_leave_capacity_on_both_sides() -> None:
    """A new sequence gets blocks at the end of a run, so that an earlier one can continue into the rest."""
    runs = FreeRuns(16)
    first = runs.take(None, 16)
    second = runs.take(None, 4)
    assert (first, second) == (0, 12)
    assert runs.take(first, 1) == 1
    assert runs.take(second, 1) == 13


def test_free_runs_start_at_the_front_if_all_is_needed() -> None:
    """A sequence that needs more than any run has starts at the beginning of a run."""
    runs = FreeRuns(8)
    assert runs.take(None, 8) == 0
    assert runs.take(None, 9) == 1


def test_free_runs_spare_long_runs() -> None:
    """A new sequence gets blocks of a run that is long enough but not much longer, if there is one."""
    runs = FreeRuns(64)
    taken = [runs.take(None, 64)]
    while runs.num_blocks:
        taken.append(runs.take(taken[-1], 1))
    for block_id in (1, 3, *range(10, 18), *range(30, 64)):
        runs.add(block_id)
    assert runs.take(None, 4) == 14
    assert runs.take(None, 9) == 55
    assert runs.take(None, 1) in (1, 3)


@pytest.mark.parametrize(("num_blocks", "has_run"), [(1, True), (4, True), (5, False), (9, False)])
def test_free_runs_know_whether_there_is_a_run(num_blocks: int, has_run: bool) -> None:  # noqa: FBT001
    """`has_run` compares by the class of a run's length, and is True if the id after the given one is free."""
    runs = FreeRuns(8)
    first = runs.take(None, 8)  # a run of 7 is left
    assert runs.has_run(None, num_blocks) == has_run
    assert runs.has_run(first, num_blocks)


def test_free_runs_join_adjacent_runs() -> None:
    """Ids that are added in any order form one run again."""
    runs = FreeRuns(4)
    taken = [runs.take(None, 4)]
    for _ in range(3):
        taken.append(runs.take(taken[-1], 1))
    for block_id in (2, 0, 1, 3):
        runs.add(block_id)
    assert [runs.take(None, 4), *(runs.take(i, 1) for i in range(3))] == [0, 1, 2, 3]


@settings(max_examples=200)
@given(
    num_blocks=st.integers(1, 40),
    moves=st.lists(st.tuples(st.booleans(), st.integers(0, 40), st.integers(1, 9)), max_size=80),
)
def test_free_runs_are_a_set(num_blocks: int, moves: list[tuple[bool, int, int]]) -> None:
    """After any operations the set holds the ids that are not taken, and `take` returns the next id if it is free."""
    runs = FreeRuns(num_blocks)
    free = set(range(num_blocks))
    for takes, number, num_wanted in moves:
        taken = sorted(set(range(num_blocks)) - free)
        if takes and free:
            after = taken[number % len(taken)] if taken else None
            block_id = runs.take(after, num_wanted)
            assert block_id in free
            if after is not None and after + 1 in free:
                assert block_id == after + 1
            free.remove(block_id)
        elif not takes and taken:
            runs.add(taken[number % len(taken)])
            free.add(taken[number % len(taken)])
        assert sorted(runs) == sorted(free)
        assert runs.num_blocks == len(free)


@pytest.mark.parametrize("num_blocks", [1, 2, 3, 64, 1000])
def test_free_runs_start_full(num_blocks: int) -> None:
    """A new set has all ids."""
    assert list(FreeRuns(num_blocks)) == list(range(num_blocks))
