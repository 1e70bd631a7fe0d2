"""Several front proxies of one fleet, each of which counts only the calls that it has sent itself."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from bench.fleet.simulated.balancers import Balancer, Member
from bench.fleet.simulated.cache import PrefixCache
from bench.fleet.simulated.job import Job


class View:
    """A replica as seen by one Envoy."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.number = member.number
        self.num_active = 0  # of its own calls

    @property
    def num_jobs(self) -> int:
        """The number of calls that the replica ever got, which it reports itself."""
        return self.member.num_jobs

    @property
    def cache(self) -> PrefixCache:
        """The replica's cache, whose held part it reports itself."""
        return self.member.cache


class Fronts:
    """Sends each call to a random Envoy, which chooses a replica by its own view."""

    def __init__(self, make: Callable[[], Balancer], number: int, seed: int) -> None:
        self._balancers = [make() for _ in range(number)]
        self._views: list[dict[int, View]] = [{} for _ in range(number)]
        self._draw = random.Random(f"{seed} fronts")
        self._sent: dict[Job, View] = {}

    def members(self, replicas: Sequence[Member]) -> None:
        """Set the replicas that are up."""
        for views, balancer in zip(self._views, self._balancers, strict=True):
            for replica in replicas:
                views.setdefault(replica.number, View(replica))
            balancer.members([views[replica.number] for replica in replicas])

    def choose(self, job: Job, now: float) -> Member:
        """Return the replica for a job."""
        balancer = self._balancers[int(self._draw.random() * len(self._balancers))]
        view = balancer.choose(job, now)
        assert isinstance(view, View)  # noqa: S101  its members are views
        view.num_active += 1
        self._sent[job] = view
        return view.member

    def ended(self, job: Job) -> None:
        """Note that a job has left its replica."""
        self._sent.pop(job).num_active -= 1
