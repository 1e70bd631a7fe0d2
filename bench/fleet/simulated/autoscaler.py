"""Autoscaling by one signal of the replicas, with the rule of Kubernetes' HPA and KEDA."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.fleet.simulated.replica import Replica
from bench.fleet.simulated.simulation import Simulation

Signal = Callable[[Sequence[Replica]], float]


def running(replicas: Sequence[Replica]) -> float:
    """Return the mean number of running and waiting calls per replica."""
    return sum(each.num_active for each in replicas) / len(replicas)


def waiting(replicas: Sequence[Replica]) -> float:
    """Return the mean number of waiting calls per replica."""
    return sum(each.num_waiting for each in replicas) / len(replicas)


def cache_usage(replicas: Sequence[Replica]) -> float:
    """Return the mean share of cache blocks held by running calls."""
    return sum(each.cache.held / each.cache.capacity for each in replicas) / len(replicas)


@dataclass(frozen=True)
class Policy:
    """A scaling policy: the fleet's size that brings the signal to `target`. Times in seconds."""

    signal: Signal
    target: float
    least: int = 2
    most: int = 1000
    period_s: float = 15.0
    tolerance: float = 0.1
    stays_s: float = 300.0  # stabilization window: a fleet shrinks to the largest size wanted within it


class Autoscaler:
    """Resizes the fleet by a policy until the traffic ends."""

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
