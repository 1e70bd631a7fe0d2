"""A simulated fleet: balancing of calls, effects of deaths and restarts, and reproducibility."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from bench.fleet.numbers import Target, numbers
from bench.fleet.simulated.autoscaler import Autoscaler, Policy, running
from bench.fleet.simulated.balancers import Balancer, LeastRequest, Maglev, Weighted, maglev_table
from bench.fleet.simulated.fronts import Fronts
from bench.fleet.simulated.job import NEVER, Job
from bench.fleet.simulated.replica import Replica, Sizes
from bench.fleet.simulated.simulation import Outcome, Plan, Simulation
from bench.fleet.simulated.step_model import EXAMPLE, StepModel, StepTable
from bench.fleet.simulated.traffic import Source, Traffic

MODEL = StepModel(EXAMPLE)
HAND = StepModel(StepTable("hand", ((1, 0.011), (101, 0.111)), ((1, 0.0101), (2001, 0.2101)), num_blocks=1000))
SIZES = Sizes(max_queue_wait_s=1000.0)


class Given:
    """Fixed jobs without later turns."""

    def __init__(self, *jobs: Job) -> None:
        self.jobs = jobs

    def first_turns(self) -> Iterator[Job]:
        return iter(self.jobs)

    def next_turn(self, job: Job) -> None:
        del job


def job(arrived: float, key: int, answer: int = 100) -> Job:
    return Job(arrived, 0, 0, key, 100, answer, key)


def fleet(balancer: Balancer, num_replicas: int, plan: Plan | None = None, model: StepModel = MODEL) -> Simulation:
    return Simulation(lambda number: Replica(number, model, SIZES), balancer, num_replicas, plan)


def replicas(num_active: list[int]) -> list[Replica]:
    found = [Replica(number, MODEL, SIZES) for number in range(len(num_active))]
    for replica, number in zip(found, num_active, strict=True):
        replica.num_active = number
    return found


def test_the_same_seed_gives_the_same_outcome_and_another_another() -> None:
    def run(seed: int) -> Outcome:
        return fleet(LeastRequest(seed), 3).run(Source(Traffic(4.0, 10.0), seed))

    assert numbers(run(1), Target()) == numbers(run(1), Target()) != numbers(run(2), Target())


def test_all_balancers_get_the_same_conversations() -> None:
    def asked(balancer: Balancer) -> set[tuple[int, int, int, int]]:
        jobs = fleet(balancer, 3).run(Source(Traffic(4.0, 10.0, think_s=0.1), 1)).jobs
        return {(each.own_key, each.turn, each.own, each.answer) for each in jobs if each.arrived < 5}

    assert len(asked(Maglev()) ^ asked(LeastRequest(1))) < 0.05 * len(asked(Maglev()))


def test_maglev_shares_evenly_and_moves_few_keys() -> None:
    """Each of 10 replicas has a tenth of the table; without the last, nine tenths of the others' entries stay."""
    with_all, without = maglev_table(range(10), 65_537), maglev_table(range(9), 65_537)
    assert all(abs(count / 6553.7 - 1) < 0.01 for count in Counter(with_all).values())
    kept = [one == other for one, other in zip(with_all, without, strict=True) if one != 9]
    assert sum(kept) > 0.9 * len(kept)


def test_bounded_maglev_leaves_a_replica_above_its_bound() -> None:
    """A key's own replica is chosen until it has ceil(1.5 · 9 / 3) = 5 calls; without the bound, always."""
    chosen = Maglev()
    chosen.members(replicas([0, 0, 0]))
    own = chosen.choose(job(0, 7), 0.0).number
    bounded = Maglev(1.5)
    for num_own, stays in ((4, True), (5, False)):
        counts = [2, 2, 2]
        counts[own] = num_own
        if num_own == 5:
            counts[(own + 1) % 3] = 1
        bounded.members(replicas(counts))
        assert (bounded.choose(job(0, 7), 0.0).number == own) is stays


def test_least_request_takes_the_emptier_of_two() -> None:
    """The most loaded of three replicas is chosen only if it is drawn twice, one time in nine."""
    balancer = LeastRequest(1)
    balancer.members(replicas([0, 0, 50]))
    chosen = Counter(balancer.choose(job(0, number), 0.0).number for number in range(9000))
    assert chosen[2] / 9000 == pytest.approx(1 / 9, rel=0.1)


def test_weights_are_what_replicas_report() -> None:
    """With held caches of 20, 40 and 80 % and equal calls, the shares are 4 to 2 to 1."""
    balancer = Weighted()
    members = replicas([0, 0, 0])
    for replica, share in zip(members, (0.2, 0.4, 0.8), strict=True):
        replica.cache.held = int(share * replica.cache.capacity)
    balancer.members(members)
    chosen = Counter(balancer.choose(job(0, number), 0.0).number for number in range(7000))
    assert [chosen[number] / 1000 for number in range(3)] == pytest.approx([4, 2, 1], rel=0.02)


def test_job_of_a_dead_replica_continues_on_another() -> None:
    """After 20 ms of prefill and 7 steps, the replica dies at 0.1 s; a second later, another one resumes the job.

    It computes 108 tokens and 91 more steps.
    """
    one = job(0.0, 7)
    plan = Plan(deaths=((0.1, 0), (0.1, 1)), start_s=0.5)
    fleet(LeastRequest(1), 2, plan, HAND).run(Given(one))
    assert one.num_broken == 1
    assert one.first_token == pytest.approx(0.020)
    assert one.ended == pytest.approx(1.1 + 0.0208 + 91 * 0.011)


def test_a_rolling_restart_breaks_nothing_and_empties_every_cache() -> None:
    """Each of three replicas is drained, down for 2 s and up again, one after the other."""
    traffic = Traffic(3.0, 40.0)
    outcome = fleet(LeastRequest(1), 3, Plan(start_s=2.0, restart_from=5.0)).run(Source(traffic, 1))
    figures = numbers(outcome, Target())
    assert (figures["broken"], figures["refused"]) == (0, 0)
    sizes = [size for at, size in outcome.sizes if at >= 5.0]
    assert sizes == [2, 3] * 3


def test_a_fleet_follows_its_load() -> None:
    """The fleet grows when replicas run more calls than the target, and shrinks again; all jobs are answered."""
    traffic = Traffic(6.0, 400.0, day_s=400.0, night=0.05, turns=1.0, answer=600.0)
    simulation = fleet(LeastRequest(1), 2, Plan(start_s=10.0))
    Autoscaler(simulation, Policy(running, 4.0, stays_s=60.0), 400.0)
    outcome = simulation.run(Source(traffic, 1))
    sizes = [size for _, size in outcome.sizes]
    assert max(sizes) > 5
    assert sizes[-1] < max(sizes) / 2
    assert all(each.ended < NEVER for each in outcome.jobs)
    assert outcome.replica_s < max(sizes) * outcome.until


@pytest.mark.slow
def test_an_envoy_counts_its_own_calls_only() -> None:
    """Ten calls of one key are spread over three replicas by one Envoy with a bound of 1, but not by 100 Envoys."""
    spread = []
    for number in (1, 100):
        fronts = Fronts(lambda: Maglev(1.0), number, 1)
        fronts.members(replicas([0, 0, 0]))
        jobs = [job(0.0, 7) for _ in range(9)]
        spread.append(len({fronts.choose(each, 0.0).number for each in jobs}))
        for each in jobs:
            fronts.ended(each)
    assert spread == [3, 1]
