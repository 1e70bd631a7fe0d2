"""The simulated scenarios and their tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from bench.fleet.numbers import Target, numbers
from bench.fleet.simulated.autoscaler import Autoscaler, Policy, cache_usage, running, waiting
from bench.fleet.simulated.balancers import Balancer, LeastRequest, Maglev, Weighted
from bench.fleet.simulated.fronts import Fronts
from bench.fleet.simulated.replica import Replica, Sizes
from bench.fleet.simulated.simulation import Outcome, Plan, Simulation
from bench.fleet.simulated.step_model import StepModel, StepTable
from bench.fleet.simulated.traffic import Source, Traffic

Row = dict[str, str | float]
Table = list[Row]

SIZES = Sizes(max_batch_sequences=128)
TARGET = Target(first_token_s=1.0, gap_s=0.03)
_WARM = 2 / 3  # the part of a run that isn't counted, since caches fill
WAYS: dict[str, Callable[[int], Balancer]] = {
    "least request": LeastRequest,
    "maglev": lambda _: Maglev(),
    "bounded maglev": lambda _: Maglev(1.5),
    "ORCA weights": lambda _: Weighted(),
}
FIGURES = ("good", "refused", "prefix_hits", "first_token_p50_s", "first_token_p95_s", "gap_p95_s", "busiest_over_mean")


def traffic_of(num_replicas: int, per_replica: float, duration_s: float = 300.0) -> Traffic:
    """Return conversations of four turns, each a request; one request in twelve has the hot prompt."""
    rate = num_replicas * per_replica
    return Traffic(rate * 11 / 12 / 4, duration_s, hot_per_s=rate / 12, system_prompts=max(4 * num_replicas, 40))


class Scenarios:
    """All scenarios for one step table and one seed."""

    def __init__(self, table: StepTable, seed: int) -> None:
        self._model = StepModel(table)
        self._seed = seed

    def simulation(self, way: str, num_replicas: int, plan: Plan | None = None) -> Simulation:
        """Return a new fleet."""
        return Simulation(lambda number: Replica(number, self._model, SIZES), WAYS[way](self._seed), num_replicas, plan)

    def run(self, way: str, num_replicas: int, traffic: Traffic, plan: Plan | None = None) -> Outcome:
        """Run a fleet under traffic to its end."""
        return self.simulation(way, num_replicas, plan).run(Source(traffic, self._seed))

    def loads(self, num_replicas: int, loads: tuple[float, ...]) -> Table:
        """Run each balancer under each load, in requests per second and replica."""
        rows: Table = []
        for load in loads:
            for way in WAYS:
                figures = self._figures(self.run(way, num_replicas, traffic_of(num_replicas, load)))
                rows.append({"way": way, "requests per second and replica": load, **figures})
        return rows

    def sizes(self, load: float, numbers_of_replicas: tuple[int, ...]) -> Table:
        """Run each balancer in fleets of several sizes under the same load per replica; larger fleets run shorter."""
        rows: Table = []
        for num_replicas in numbers_of_replicas:
            traffic = traffic_of(num_replicas, load, 120.0 if num_replicas <= 100 else 45.0)
            for way in WAYS:
                outcome = self.run(way, num_replicas, traffic)
                figures = self._figures(outcome)
                hottest = _hottest(outcome)
                rows.append({"replicas": num_replicas, "way": way, **figures, "most_calls_over_mean": hottest})
        return rows

    def fronts(self, num_replicas: int, load: float) -> Table:
        """Distribute the same calls over several numbers of Envoys, each of which only knows its own calls."""
        rows: Table = []
        for way in ("least request", "bounded maglev"):
            for number in (1, 4, 16, 64):
                balancer = Fronts(partial(WAYS[way], self._seed), number, self._seed)
                simulation = Simulation(lambda each: Replica(each, self._model, SIZES), balancer, num_replicas)
                outcome = simulation.run(Source(traffic_of(num_replicas, load, 90.0), self._seed))
                rows.append({"way": way, "Envoys": number, **self._figures(outcome)})
        return rows

    def failures(self, num_replicas: int, load: float) -> Table:
        """Let one replica in ten die, and do a rolling restart: the figures of each ten seconds, by bounded Maglev."""
        deaths = tuple((100.0, number) for number in range(num_replicas // 10))
        plans = {
            "nothing": Plan(),
            "a tenth dies": Plan(deaths, start_s=45.0),
            "rolling restart": Plan(start_s=10.0, restart_from=100.0),
        }
        rows: Table = []
        for name, plan in plans.items():
            outcome = self.run("bounded maglev", num_replicas, traffic_of(num_replicas, load, 300.0), plan)
            for since in range(60, 300, 10):
                figures = numbers(_between(outcome, since, since + 10), TARGET, since=since)
                keys = ("good", "broken", "refused", "prefix_hits", "first_token_p95_s")
                rows.append({"what": name, "at": float(since), **{key: figures[key] for key in keys}})
        return rows

    def autoscaling(self, load: float) -> Table:
        """Run a day of twenty minutes with bursts: autoscaling by each signal, and fleets of fixed size."""
        traffic = replace(
            traffic_of(10, load, 1200.0), day_s=1200.0, night=0.2, burst_every_s=200.0, burst_calls=150, hot_per_s=0.0
        )
        fixed = {f"{number} replicas": (number, None) for number in (6, 10, 14, 18)}
        policies: dict[str, tuple[int, Policy | None]] = {
            "running, 15 each": (6, Policy(running, 15.0, stays_s=100.0)),
            "running, 30 each": (6, Policy(running, 30.0, stays_s=100.0)),
            "waiting, 1 each": (6, Policy(waiting, 1.0, stays_s=100.0)),
            "cache held, 10 %": (6, Policy(cache_usage, 0.1, stays_s=100.0)),
        }
        rows: Table = []
        for name, (number, policy) in {**fixed, **policies}.items():
            simulation = self.simulation("bounded maglev", number, Plan(start_s=30.0))
            if policy is not None:
                Autoscaler(simulation, policy, traffic.duration_s)
            outcome = simulation.run(Source(traffic, self._seed))
            figures = numbers(outcome, TARGET)
            keys = ("good", "refused", "prefix_hits", "first_token_p95_s", "busy", "replica_hours")
            most = float(max(size for _, size in outcome.sizes))
            rows.append({"fleet": name, "most": most, **{key: figures[key] for key in keys}})
        return rows

    @staticmethod
    def _figures(outcome: Outcome) -> Row:
        figures = numbers(outcome, TARGET, since=_WARM * max(job.arrived for job in outcome.jobs))
        return {name: figures[name] for name in FIGURES}


def _hottest(outcome: Outcome) -> float:
    """Return the largest number of calls of a replica, relative to the mean."""
    calls = [each.num_jobs for each in outcome.replicas]
    return max(calls) * len(calls) / sum(calls)


def _between(outcome: Outcome, since: float, until: float) -> Outcome:
    return replace(outcome, jobs=[job for job in outcome.jobs if since <= job.arrived < until])
