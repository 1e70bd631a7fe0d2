"""Discrete-event simulation of a fleet under traffic."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Protocol

from bench.fleet.simulated.balancers import Balancer
from bench.fleet.simulated.job import NEVER, Job
from bench.fleet.simulated.replica import Replica


class Jobs(Protocol):
    """The requests: first turns in order of time, and the turn after each answer."""

    def first_turns(self) -> Any:
        """Return an iterator over jobs in the order of arrival."""

    def next_turn(self, job: Job) -> Job | None:
        """Return the turn after an answer, or None if the conversation ends."""


@dataclass(frozen=True)
class Plan:
    """Deaths and restarts of replicas. Times in seconds; a replica that starts has an empty cache."""

    deaths: tuple[tuple[float, int], ...] = ()  # when, and which
    start_s: float = 60.0  # from a replica's start to its first call
    noticed_s: float = 1.0  # until a dead replica's calls are sent elsewhere
    restart_from: float = NEVER  # start of a rolling restart of one replica after the other, each drained first


@dataclass
class Outcome:
    """The results of a run."""

    jobs: list[Job] = field(default_factory=list)  # ended or rejected
    replicas: list[Replica] = field(default_factory=list)
    replica_s: float = 0.0  # billed replica time
    until: float = 0.0
    sizes: list[tuple[float, int]] = field(default_factory=list)  # (time, size) of each change of the fleet


class Simulation:
    """One run, which is deterministic."""

    def __init__(
        self, make: Callable[[int], Replica], balancer: Balancer, num_replicas: int, plan: Plan | None = None
    ) -> None:
        """Create the fleet; `make` returns the replica with a number."""
        self.now = 0.0
        self.replicas = [make(number) for number in range(num_replicas)]
        self.outcome = Outcome(replicas=self.replicas)
        self._make = make
        self._balancer = balancer
        self._plan = plan or Plan()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = count()
        self._paid_from = dict.fromkeys(range(num_replicas), 0.0)
        self._to_restart: list[Replica] = []
        self._held_back: list[Job] = []  # while no replica is up
        self._members_changed()

    def at(self, when: float, what: Callable[[], None]) -> None:
        """Schedule an event."""
        heapq.heappush(self._events, (when, next(self._serial), what))

    def run(self, source: Jobs) -> Outcome:
        """Run until all requests are answered."""
        self._source = source
        first_turns = iter(source.first_turns())

        def arrive() -> None:
            job = next(first_turns, None)
            if job is not None:
                self.at(job.arrived, lambda: self._arrive(job, arrive))

        arrive()
        for when, number in self._plan.deaths:
            self.at(when, partial(self._die, self.replicas[number]))
        if self._plan.restart_from < NEVER:
            self.at(self._plan.restart_from, self._restart_all)
        while self._events:
            self.now, _, what = heapq.heappop(self._events)
            what()
        self.outcome.until = max((job.ended for job in self.outcome.jobs if not job.refused), default=self.now)
        self.outcome.replica_s += sum(max(self.outcome.until - since, 0.0) for since in self._paid_from.values())
        return self.outcome

    def grow(self, number: int) -> None:
        """Start more replicas; they are billed immediately, and answer after loading."""
        for _ in range(number):
            replica = self._make(len(self.replicas))
            replica.is_up = False
            self.replicas.append(replica)
            self._paid_from[replica.number] = self.now
            self.at(self.now + self._plan.start_s, partial(self._up, replica))

    def shrink(self, number: int) -> None:
        """Drain and stop the newest replicas."""
        staying = [each for each in self.replicas if each.is_up and not each.is_draining]
        for replica in staying[max(len(staying) - number, 1) :]:
            replica.is_draining = True
            self._gone_if_idle(replica)
        self._members_changed()

    def members(self) -> list[Replica]:
        """Return the replicas that get calls."""
        return [each for each in self.replicas if each.is_up and not each.is_draining]

    def num_paid(self) -> int:
        """Return the number of running and starting replicas, without those that drain."""
        return sum(each.number in self._paid_from and not each.is_draining for each in self.replicas)

    def _arrive(self, job: Job, then: Callable[[], None]) -> None:
        self._send(job)
        then()

    def _send(self, job: Job) -> None:
        if not self._members:
            self._held_back.append(job)
            return
        replica = self.replicas[self._balancer.choose(job, self.now).number]
        if replica.add(job, self.now):
            self._wait_for(replica)
        else:
            self._balancer.ended(job)
            self.outcome.jobs.append(job)

    def _wait_for(self, replica: Replica) -> None:
        version = replica.version
        if replica.until < NEVER:
            self.at(replica.until, lambda: self._go_on(replica, version))

    def _go_on(self, replica: Replica, version: int) -> None:
        if version != replica.version:
            return
        for job in replica.go_on(self.now):
            self._balancer.ended(job)
            self.outcome.jobs.append(job)
            following = self._source.next_turn(job)
            if following is not None:
                self.at(following.arrived, partial(self._send, following))
        self._wait_for(replica)
        self._gone_if_idle(replica)

    def _members_changed(self) -> None:
        self._members = self.members()
        self.outcome.sizes.append((self.now, len(self._members)))
        if self._members:
            self._balancer.members(self._members)
            held, self._held_back = self._held_back, []
            for job in held:
                self._send(job)

    def _up(self, replica: Replica) -> None:
        replica.is_up, replica.is_draining = True, False
        self._members_changed()
        if self._to_restart and self._to_restart[0] is replica:
            self._to_restart.pop(0)
            self._restart_next()

    def _die(self, replica: Replica) -> None:
        """Stop a replica; when the death is noticed, its jobs are sent elsewhere and resumed."""
        replica.is_up = False
        lost = replica.die(self.now)
        self._members_changed()
        for job in lost:
            self._balancer.ended(job)
            job.num_broken += 1
            self.at(self.now + self._plan.noticed_s, partial(self._send, job))
        self.at(self.now + self._plan.start_s, lambda: self._up(replica))

    def _restart_all(self) -> None:
        self._to_restart = self.members()
        self._restart_next()

    def _restart_next(self) -> None:
        if self._to_restart:
            self._to_restart[0].is_draining = True
            self._members_changed()
            self._gone_if_idle(self._to_restart[0])

    def _gone_if_idle(self, replica: Replica) -> None:
        if not replica.is_draining or replica.num_active or not replica.is_up:
            return
        replica.is_up = False
        replica.die(self.now)
        if self._to_restart and self._to_restart[0] is replica:
            self.at(self.now + self._plan.start_s, lambda: self._up(replica))
        elif replica.number in self._paid_from:
            self.outcome.replica_s += self.now - self._paid_from.pop(replica.number)
