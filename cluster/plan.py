"""Plan the starts and drains of a pool's replicas, to reach the wanted number and revision."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass


class ReplicaPhase(enum.StrEnum):
    """The phase of a replica's life."""

    STARTING = "starting"  # waiting for a node, or loading models
    SERVING = "serving"
    DRAINING = "draining"  # finishing running requests
    ENDED = "ended"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """The state of a replica. With `is_settled` it has served long enough that Envoys route to it."""

    name: str
    revision: str
    phase: ReplicaPhase
    is_settled: bool = False
    sequences: int = 0  # running and waiting ones


@dataclass(frozen=True, slots=True)
class Plan:
    """The number of replicas to start, and the names of those to drain."""

    num_starts: int = 0
    drains: tuple[str, ...] = ()


def plan(replicas: Sequence[ReplicaStatus], wanted: int, revision: str, *, surge: bool) -> Plan:
    """Return the next step to `wanted` replicas of `revision`.

    Replicas of other revisions are replaced one at a time. With `surge` the old one is drained after the new one
    serves, otherwise before it starts.
    """
    active = [each for each in replicas if each.phase in {ReplicaPhase.STARTING, ReplicaPhase.SERVING}]
    current = [each for each in active if each.revision == revision]
    old = [each for each in active if each.revision != revision]
    if not old:
        goes = sorted(current, key=_drain_order)[: max(len(current) - wanted, 0)]
        return Plan(max(wanted - len(current), 0), tuple(each.name for each in goes))
    num_startable = wanted + surge - len(active)
    num_starts = max(min(wanted - len(current), num_startable), 0)
    idle = [each for each in old if each.phase is ReplicaPhase.STARTING]
    serving = [each for each in old if each.phase is ReplicaPhase.SERVING]
    least = max(wanted - (not surge), 0)
    num_spare = sum(each.is_settled for each in current) + len(serving) - least
    goes = [*idle, *sorted(serving, key=_drain_order)[: max(num_spare, 0)]]
    return Plan(num_starts, tuple(each.name for each in goes))


def _drain_order(replica: ReplicaStatus) -> tuple[bool, bool, int, str]:
    """Return the sort key of drains: replicas that do not serve first, then those with the fewest sequences."""
    return replica.phase is ReplicaPhase.SERVING, replica.is_settled, replica.sequences, replica.name
