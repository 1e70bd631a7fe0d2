"""How many replicas there should be, by one signal of theirs: Kubernetes' rule, as HPA and KEDA have it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.fleet.simulated.replica import Replica
from bench.fleet.simulated.simulation import Simulation

Signal = Callable[[Sequence[Replica]], float]


def running(replicas: Sequence[Replica]) -> float:
    """Calls that run or wait, of a replica on average."""
    return sum(each.num_active for each in replicas) / len(replicas)


def waiting(replicas: Sequence[Replica]) -> float:
    """Calls that wait for their beginning, of a replica on average."""
    return sum(each.num_waiting for each in replicas) / len(replicas)


def cache_usage(replicas: Sequence[Replica]) -> float:
    """Of the blocks, the part that running calls hold."""
    return sum(each.cache.held / each.cache.capacity for each in replicas) / len(replicas)


@dataclass(frozen=True)
class Policy:
    """The fleet is to be as large as brings the signal to `target`. Times in seconds."""

    signal: Signal
    target: float
    least: int = 2
    most: int = 1000
    period_s: float = 15.0
    tolerance: float = 0.1
    stays_s: float = 300.0  # a fleet shrinks to the most that was wanted in so long


class Autoscaler:
    """Follows a policy until the traffic ends."""

    def __init__(self, simulation: Simulation, policy: Policy, until: float) -> None:
        self._simulation = simulation
        self._policy = policy
        self._until = until
        self._wanted: list[tuple[float, int]] = []
        simulation.at(policy.period_s, self._look)

    def _look(self) -> None:
        simulation, policy = self._simulation, self._policy
        members = simulation.members()
        if members:
            ratio = policy.signal(members) / policy.target
            wanted = len(members) if abs(ratio - 1) <= policy.tolerance else math.ceil(len(members) * ratio)
            self._resize(min(max(wanted, policy.least), policy.most))
        if simulation.now + policy.period_s < self._until:
            simulation.at(simulation.now + policy.period_s, self._look)

    def _resize(self, wanted: int) -> None:
        simulation, policy = self._simulation, self._policy
        self._wanted = [(at, each) for at, each in self._wanted if at > simulation.now - policy.stays_s]
        self._wanted.append((simulation.now, wanted))
        num_paid = simulation.num_paid()
        if wanted > num_paid:
            simulation.grow(wanted - num_paid)
        elif (most := max(each for _, each in self._wanted)) < num_paid:
            simulation.shrink(num_paid - most)
