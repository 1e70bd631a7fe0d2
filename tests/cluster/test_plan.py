"""A pool's replicas reach a count and a revision step by step, and enough of them serve at any time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from cluster.plan import Plan, ReplicaPhase, ReplicaStatus, plan

NEW, OLD = "2", "1"


def standing(
    name: str, revision: str = NEW, phase: ReplicaPhase = ReplicaPhase.SERVING, sequences: int = 0
) -> ReplicaStatus:
    return ReplicaStatus(name, revision, phase, phase is ReplicaPhase.SERVING, sequences)


def test_missing_replicas_are_started() -> None:
    """Starting replicas count, draining ones don't."""
    replicas = [standing("a"), standing("b", phase=ReplicaPhase.STARTING), standing("c", phase=ReplicaPhase.DRAINING)]
    assert plan(replicas, 4, NEW, surge=True) == Plan(2)


def test_the_least_serving_replica_is_removed_first() -> None:
    """A replica that doesn't serve yet is removed before all others."""
    replicas = [standing("a", sequences=3), standing("b", sequences=1), standing("c", phase=ReplicaPhase.STARTING)]
    assert plan(replicas, 2, NEW, surge=True) == Plan(0, ("c",))
    assert plan(replicas, 1, NEW, surge=True) == Plan(0, ("c", "b"))
    assert plan(replicas, 0, NEW, surge=True) == Plan(0, ("c", "b", "a"))


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        ([standing("a", OLD), standing("b", OLD)], Plan(1)),  # one above the number
        ([standing("a", OLD), standing("b", OLD), standing("c", phase=ReplicaPhase.STARTING)], Plan(0)),
        ([standing("a", OLD), standing("b", OLD), replace(standing("c"), is_settled=False)], Plan(0)),
        ([standing("a", OLD), standing("b", OLD), standing("c")], Plan(0, ("a",))),
        ([standing("a", OLD, ReplicaPhase.DRAINING), standing("b", OLD), standing("c")], Plan(1)),
        ([standing("a", OLD, ReplicaPhase.STARTING), standing("b", OLD)], Plan(1, ("a",))),
    ],
)
def test_old_replica_is_removed_after_its_successor_serves(replicas: Sequence[ReplicaStatus], expected: Plan) -> None:
    """Two replicas of an old revision are replaced one at a time, each after its successor serves."""
    assert plan(replicas, 2, NEW, surge=True) == expected


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        ([standing("a", OLD), standing("b", OLD)], Plan(0, ("a",))),
        ([standing("a", OLD, ReplicaPhase.DRAINING), standing("b", OLD)], Plan(1)),
        ([standing("b", OLD), standing("c", phase=ReplicaPhase.STARTING)], Plan(0)),
        ([standing("b", OLD), standing("c")], Plan(0, ("b",))),
    ],
)
def test_without_capacity_one_old_replica_is_removed_first(replicas: Sequence[ReplicaStatus], expected: Plan) -> None:
    """At most one fewer than wanted serves meanwhile."""
    assert plan(replicas, 2, NEW, surge=False) == expected


@pytest.mark.parametrize("surge", [True, False])
@pytest.mark.parametrize("expected", [0, 1, 2, 5])
def test_replacement_terminates_from_any_start(expected: int, surge: bool) -> None:  # noqa: FBT001
    """From any start, the wanted number of the new revision serves in the end, and never fewer than allowed."""
    replicas = [standing(f"old-{number}", OLD) for number in range(3)]
    least = min(expected, 3) - (not surge)
    for step in range(40):
        done = plan(replicas, expected, NEW, surge=surge)
        replicas = [each for each in replicas if each.name not in done.drains]
        assert len([each for each in replicas if each.is_settled]) >= least
        replicas = [standing(each.name, each.revision) for each in replicas]
        replicas += [standing(f"new-{step}-{number}", NEW, ReplicaPhase.STARTING) for number in range(done.num_starts)]
    assert [each.revision for each in replicas] == [NEW] * expected
