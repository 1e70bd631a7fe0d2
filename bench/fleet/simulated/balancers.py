"""Load balancers, implemented as Envoy's documentation and source describe them."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import count
from typing import Protocol

from bench.fleet.simulated.cache import PrefixCache
from bench.fleet.simulated.job import Job

TABLE_SIZE = 65_537  # Envoy's default of Maglev; a prime
_ORCA_PERIOD_S = 1.0
_LEAST_UTILISATION = 0.01


def number_of(*values: object) -> int:
    """Return a 64-bit hash of the values, the same in every process."""
    return int.from_bytes(blake2b(repr(values).encode(), digest_size=8).digest(), "little")


class Member(Protocol):
    """A replica as seen by a balancer."""

    @property
    def number(self) -> int:
        """The replica's unique number."""

    @property
    def num_active(self) -> int:
        """The number of waiting and running calls that the balancer knows."""

    @property
    def num_jobs(self) -> int:
        """The number of calls that the replica ever got."""

    @property
    def cache(self) -> PrefixCache:
        """The replica's cache, whose held part it reports."""


class Balancer(Protocol):
    """Chooses among the replicas that are up."""

    def members(self, replicas: Sequence[Member]) -> None:
        """Set the replicas that are up."""

    def choose(self, job: Job, now: float) -> Member:
        """Return the replica for a job."""

    def ended(self, job: Job) -> None:
        """Note that a job has left its replica."""


class LeastRequest:
    """Chooses, of two random replicas, the one with fewer calls."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._replicas: Sequence[Member] = ()

    def members(self, replicas: Sequence[Member]) -> None:
        """Set the replicas that are up."""
        self._replicas = replicas

    def choose(self, job: Job, now: float) -> Member:
        """Return the less loaded of two random replicas, which may be the same."""
        del job, now
        one, other = (self._replicas[int(self._draw.random() * len(self._replicas))] for _ in range(2))
        return one if one.num_active <= other.num_active else other

    def ended(self, job: Job) -> None:
        """Do nothing, since replicas count their calls."""


class Maglev:
    """Chooses by the job's key. With `bound`, a replica's calls are at most `bound` times the mean."""

    def __init__(self, bound: float | None = None, table_size: int = TABLE_SIZE) -> None:
        self._bound = bound
        self._size = table_size
        self._table: list[int] = []
        self._replicas: Sequence[Member] = ()
        self._tables: dict[tuple[int, ...], list[int]] = {}

    def members(self, replicas: Sequence[Member]) -> None:
        """Set the replicas that are up."""
        self._replicas = replicas
        names = tuple(each.number for each in replicas)
        if names not in self._tables:
            self._tables = {names: maglev_table(names, self._size)}
        self._table = self._tables[names]

    def choose(self, job: Job, now: float) -> Member:
        """Return the key's replica, or the first replica below the bound in the key's order."""
        del now
        key = number_of(job.route_key)
        mine = self._replicas[self._table[key % self._size]]
        if self._bound is None:
            return mine
        total = sum(each.num_active for each in self._replicas) + 1
        most = math.ceil(total * self._bound / len(self._replicas))
        if mine.num_active < most:
            return mine
        return next((each for each in self._others(key) if each.num_active < most), mine)

    def ended(self, job: Job) -> None:
        """Do nothing, since replicas count their calls."""

    def _others(self, key: int) -> Iterator[Member]:
        """Yield all replicas in a random order that depends only on the key."""
        draw, others = random.Random(key), list(self._replicas)
        for last in range(len(others), 0, -1):
            index = int(draw.random() * last)
            others[index], others[last - 1] = others[last - 1], others[index]
            yield others[last - 1]


def maglev_table(names: Sequence[int], size: int) -> list[int]:
    """Return the index in `names` of each table entry. Eisenbud et al.: Maglev (2016)."""
    offsets = [number_of("offset", name) % size for name in names]
    skips = [number_of("skip", name) % (size - 1) + 1 for name in names]
    table, filled = [-1] * size, 0
    positions = list(offsets)
    while True:
        for index, skip in enumerate(skips):
            position = positions[index]
            while table[position] >= 0:
                position = (position + skip) % size
            table[position] = index
            positions[index] = (position + skip) % size
            filled += 1
            if filled == size:
                return table


class Weighted:
    """Weighted round robin by each replica's report (ORCA): calls per second divided by utilization."""

    def __init__(self) -> None:
        self._replicas: Sequence[Member] = ()
        self._turns: list[tuple[float, int, int]] = []
        self._weights: list[float] = []
        self._next_weights = 0.0
        self._serial = count()
        self._seen: dict[int, int] = {}

    def members(self, replicas: Sequence[Member]) -> None:
        """Set the replicas that are up."""
        self._replicas = replicas
        self._weights = [1.0] * len(replicas)
        self._turns = [((index + 1) / len(replicas), next(self._serial), index) for index in range(len(replicas))]
        heapq.heapify(self._turns)

    def choose(self, job: Job, now: float) -> Member:
        """Return the replica with the earliest deadline; a replica's deadlines are 1 / weight apart."""
        del job
        if now >= self._next_weights:
            self._weigh(now)
        deadline, _, index = heapq.heappop(self._turns)
        heapq.heappush(self._turns, (deadline + 1 / self._weights[index], next(self._serial), index))
        return self._replicas[index]

    def ended(self, job: Job) -> None:
        """Do nothing, since replicas count their calls."""

    def _weigh(self, now: float) -> None:
        self._next_weights = now + _ORCA_PERIOD_S
        weights = []
        for each in self._replicas:
            calls = each.num_jobs - self._seen.get(each.number, 0)
            self._seen[each.number] = each.num_jobs
            weights.append(max(calls, 1) / max(each.cache.held / each.cache.capacity, _LEAST_UTILISATION))
        mean = sum(weights) / len(weights)
        self._weights = [max(weight / mean, 0.05) for weight in weights]
