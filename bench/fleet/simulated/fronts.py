"""Several Envoys before one fleet, of which each counts only the calls that it has sent itself."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from bench.fleet.simulated.balancers import Balancer, Member
from bench.fleet.simulated.cache import PrefixCache
from bench.fleet.simulated.job import Job


class View:
    """A replica as one Envoy sees it."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.number = member.number
        self.num_active = 0  # of its own calls

    @property
    def num_jobs(self) -> int:
        """All that the replica got, of which it tells by itself."""
        return self.member.num_jobs

    @property
    def cache(self) -> PrefixCache:
        """The replica's, of which it tells by itself."""
        return self.member.cache


class Fronts:
    """Each call comes to one of the Envoys at random, which chooses by what it knows."""

    def __init__(self, make: Callable[[], Balancer], number: int, seed: int) -> None:
        self._balancers = [make() for _ in range(number)]
        self._views: list[dict[int, View]] = [{} for _ in range(number)]
        self._draw = random.Random(f"{seed} fronts")
        self._sent: dict[Job, View] = {}

    def members(self, replicas: Sequence[Member]) -> None:
        """These are up from now on."""
        for views, balancer in zip(self._views, self._balancers, strict=True):
            for replica in replicas:
                views.setdefault(replica.number, View(replica))
            balancer.members([views[replica.number] for replica in replicas])

    def choose(self, job: Job, now: float) -> Member:
        """Where a job goes."""
        balancer = self._balancers[int(self._draw.random() * len(self._balancers))]
        view = balancer.choose(job, now)
        assert isinstance(view, View)  # noqa: S101  it was given such
        view.num_active += 1
        self._sent[job] = view
        return view.member

    def ended(self, job: Job) -> None:
        """A job has left its replica."""
        self._sent.pop(job).num_active -= 1
