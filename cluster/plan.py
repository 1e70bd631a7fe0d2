"""What to do with a pool's replicas, so that there are as many as wanted, and all of one revision."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass


class ReplicaPhase(enum.StrEnum):
    """What a replica is about."""

    STARTING = "starting"  # waits for a node, or loads its models
    SERVING = "serving"
    DRAINING = "draining"  # ends what runs
    ENDED = "ended"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """Where a replica stands. `is_settled`: it serves for so long that Envoys send to it."""

    name: str
    revision: str
    phase: ReplicaPhase
    is_settled: bool = False
    sequences: int = 0  # that run or wait there


@dataclass(frozen=True, slots=True)
class Plan:
    """How many to start, and which to drain."""

    num_starts: int = 0
    drains: tuple[str, ...] = ()


def plan(replicas: Sequence[ReplicaStatus], wanted: int, revision: str, *, surge: bool) -> Plan:
    """The next step to `wanted` replicas of `revision`.

    Those of another are replaced one at a time: with `surge` after the new one serves, otherwise before it starts.
    """
    active = [each for each in replicas if each.phase in {ReplicaPhase.STARTING, ReplicaPhase.SERVING}]
    current = [each for each in active if each.revision == revision]
    old = [each for each in active if each.revision != revision]
    if not old:
        goes = sorted(current, key=_order_of_leaving)[: max(len(current) - wanted, 0)]
        return Plan(max(wanted - len(current), 0), tuple(each.name for each in goes))
    room = wanted + surge - len(active)
    num_starts = max(min(wanted - len(current), room), 0)
    idle = [each for each in old if each.phase is ReplicaPhase.STARTING]
    serving = [each for each in old if each.phase is ReplicaPhase.SERVING]
    least = max(wanted - (not surge), 0)
    num_spare = sum(each.is_settled for each in current) + len(serving) - least
    goes = [*idle, *sorted(serving, key=_order_of_leaving)[: max(num_spare, 0)]]
    return Plan(num_starts, tuple(each.name for each in goes))


def _order_of_leaving(replica: ReplicaStatus) -> tuple[bool, bool, int, str]:
    """Who serves nobody first, then who has least to do."""
    return replica.phase is ReplicaPhase.SERVING, replica.is_settled, replica.sequences, replica.name
