"""The number of replicas that a pool needs: each case is computed by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cluster.load import Load
from cluster.scaling import Scaler, Scaling

SCALING = Scaling(target_sequences=10, max_queue_time_s=1, min_free_cache=0.1, up_after_s=5, down_after_s=60)
IDLE = Load()


def decided(
    times: Sequence[float],
    loads: Sequence[Load],
    current: int,
    *,
    least: int = 1,
    most: int = 8,
    is_called: bool = False,
) -> list[int]:
    """Return the decisions at these times, with constant loads."""
    scaler = Scaler(SCALING, least, most, current)
    return [scaler.decide(now, loads, is_called=is_called) for now in times]


@pytest.mark.parametrize(
    ("loads", "current", "expected"),
    [
        ([Load(running=10)], 1, 1),  # 10 fit one
        ([Load(running=8, waiting=3)], 1, 2),  # 11 need 1.1
        ([Load(running=10, waiting=25)], 1, 4),  # 35 need 3.5
        ([Load(running=100)], 1, 8),  # 10 would do, max_replicas is 8
        ([Load(running=1), Load(running=11)], 2, 2),  # 12 need 1.2; but 8 is the most that one is left with
        ([Load(started=4, queue_time_s=1.1)], 1, 2),  # they waited
        ([Load(started=4, queue_time_s=1.1)], 2, 2),  # the second one doesn't serve yet
        ([Load(started=9, queue_time_s=1), Load(started=1, queue_time_s=2)], 2, 3),  # (9 + 2) / 10 s = 1.1 s
        ([Load(started=9, queue_time_s=0.8), Load(started=1, queue_time_s=2)], 2, 2),  # (7.2 + 2) / 10 s = 0.92 s
        ([Load(running=1, rejected=1)], 1, 2),  # regardless of the running ones
        ([Load(free_cache=0.05)], 1, 2),
        ([Load(free_cache=0.05), Load(free_cache=0.15)], 2, 2),  # 0.1 on average is enough
        ([], 3, 3),  # starting replicas have no load yet
    ],
)
def test_replicas_are_added_after_up_after_s(loads: Sequence[Load], current: int, expected: int) -> None:
    """Replicas are added after up_after_s, and not before."""
    assert decided([100, 104.9, 105], loads, current) == [current, current, expected]


def test_short_load_peak_adds_no_replica() -> None:
    """The time restarts when fewer replicas suffice."""
    scaler = Scaler(SCALING, 1, 8, 1)
    busy = [Load(running=20)]
    given = [(0, busy), (4, busy), (5, [IDLE]), (6, busy), (10, busy), (11, busy)]
    assert [scaler.decide(now, loads, is_called=False) for now, loads in given] == [1, 1, 1, 1, 1, 2]


def test_replicas_are_removed_one_at_a_time() -> None:
    """Replicas are removed one by one, each after another down_after_s."""
    assert decided([0, 59, 60, 119, 120, 500], [IDLE], 3) == [3, 3, 2, 2, 1, 1]


def test_removed_replicas_are_not_needed_again_immediately() -> None:
    """The running requests must fit into 0.8 of the remaining replicas' target: 8, not 10."""
    assert decided([0, 60], [Load(running=9), IDLE], 2)[-1] == 2
    assert decided([0, 60], [Load(running=8), IDLE], 2)[-1] == 1


def test_idle_pools_become_empty() -> None:
    """With min_replicas: 0 an idle pool becomes empty; a single short request in the period keeps the last replica."""
    assert decided([0, 60], [IDLE], 1, least=0) == [1, 0]
    assert decided([0, 60], [Load(started=1)], 1, least=0) == [1, 1]
    assert decided([0, 60], [Load(running=1)], 1, least=0) == [1, 1]


def test_the_first_replica_is_added_immediately() -> None:
    """The first replica isn't delayed, since a call has already been rejected."""
    assert decided([0, 1], [], 0, least=0) == [0, 0]
    assert decided([0, 1], [], 0, least=0, is_called=True) == [1, 1]


def test_bounds_apply_from_the_start() -> None:
    """The bounds apply to replicas that already run, and after a change of the bounds."""
    assert decided([0], [], 0) == [1]
    assert decided([0], [IDLE] * 9, 9) == [8]
