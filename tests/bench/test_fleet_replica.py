"""A simulated replica, compared with hand-computed times or with the product's own scheduler."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.fleet.numbers import Target, numbers
from bench.fleet.simulated.balancers import Maglev
from bench.fleet.simulated.cache import PrefixCache
from bench.fleet.simulated.job import NEVER, Job
from bench.fleet.simulated.product_replica import ProductReplica
from bench.fleet.simulated.replica import Replica, Sizes
from bench.fleet.simulated.simulation import Simulation
from bench.fleet.simulated.step_model import EXAMPLE, StepModel, StepTable
from bench.fleet.simulated.traffic import Source, Traffic

# A step of n sequences takes 10 + n ms, a prompt of n tokens 10 ms and 0.1 ms each.
TABLE = StepTable("hand", ((1, 0.011), (101, 0.111)), ((1, 0.0101), (2001, 0.2101)), num_blocks=100)
MODEL = StepModel(TABLE)
SIZES = Sizes(max_queue_wait_s=1000.0)


def job(arrived: float = 0.0, own: int = 100, answer: int = 5, **fields: int) -> Job:
    return Job(arrived, 0, fields.get("shared", 0), fields.get("own_key", 1), own, answer, 0)


def finish(replica: Replica, *jobs: Job) -> None:
    """Add jobs at their times, and run the replica until all have ended."""
    left = sorted(jobs, key=lambda each: each.arrived)
    while left or replica.until < NEVER:
        if left and left[0].arrived <= replica.until:
            first = left.pop(0)
            replica.add(first, first.arrived)
        else:
            replica.go_on(replica.until)


@pytest.mark.parametrize("kind", [Replica, ProductReplica])
def test_one_job_takes_its_prefill_and_a_step_a_token(kind: type[Replica]) -> None:
    """A prompt of 100 tokens takes 20 ms, and four more tokens take 11 ms each."""
    one = job()
    finish(kind(0, MODEL, SIZES), one)
    assert one.first_token == pytest.approx(0.020)
    assert one.ended == pytest.approx(0.020 + 4 * 0.011)


@pytest.mark.parametrize("kind", [Replica, ProductReplica])
def test_prompts_that_come_together_share_a_step_and_their_decodes_too(kind: type[Replica]) -> None:
    """The first prompt is alone in its step of 20 ms; the other two wait for it, and take 11 and 30 - 10.1 ms."""
    jobs = [job(own_key=number) for number in range(3)]
    finish(kind(0, MODEL, SIZES), *jobs)
    assert jobs[0].first_token == pytest.approx(0.020)
    assert [each.first_token for each in jobs[1:]] == pytest.approx([0.020 + 0.011 + 0.0300 - 0.0101] * 2)
    assert jobs[0].ended == pytest.approx(jobs[1].first_token + 3 * 0.013)
    assert [each.ended for each in jobs[1:]] == pytest.approx([jobs[0].ended + 0.012] * 2)


@pytest.mark.parametrize("kind", [Replica, ProductReplica])
def test_a_job_that_arrives_during_a_step_begins_with_the_next(kind: type[Replica]) -> None:
    """The first job decodes from 20 ms on in steps of 11 ms; a job that arrives at 50 ms begins at 53 ms."""
    first, second = job(answer=20), job(0.050, own_key=2, answer=1)
    finish(kind(0, MODEL, SIZES), first, second)
    assert second.first_token == pytest.approx(0.053 + 0.011 + 0.0200 - 0.0101)


@pytest.mark.parametrize("kind", [Replica, ProductReplica])
def test_a_later_turn_finds_whole_blocks_of_the_earlier_one(kind: type[Replica]) -> None:
    """Of 100 prompt and 5 answer tokens, of which the last is not computed, 96 are found; 59 others take 15.9 ms."""
    first = job()
    second = job(1.0, own=100 + 5 + 50, answer=1)
    finish(kind(0, MODEL, SIZES), first, second)
    assert second.cached == 96
    assert second.first_token == pytest.approx(1.0 + 0.010 + 0.0059)


@pytest.mark.parametrize("kind", [Replica, ProductReplica])
def test_a_shared_part_is_found_by_others(kind: type[Replica]) -> None:
    """A job of another conversation finds the 160 shared tokens once the first job has computed them."""
    first, second = job(shared=160), job(1.0, own_key=2, shared=160)
    finish(kind(0, MODEL, SIZES), first, second)
    assert (first.cached, second.cached) == (0, 160)


def test_the_least_recently_used_is_evicted_first_from_its_end() -> None:
    """100 blocks hold a shared part of 40 and conversations of 30 and 20; 20 more evict the older one's last 10."""
    cache = PrefixCache(1600, 16)
    older, newer = job(own=480, shared=640, own_key=1), job(own=320, shared=640, own_key=2)
    for each in (older, newer):
        cache.hold(each)
        cache.record_prompt(each)
    for each in (older, newer):
        cache.release(each)
    assert (cache.held, cache.kept) == (0, 1440)
    third = job(own=320, own_key=3)
    cache.hold(third)
    assert (cache.held, cache.kept) == (320, 1280)
    assert cache.found(job(own=500, shared=640, own_key=1)) == 640 + 320
    assert cache.found(job(own=500, shared=640, own_key=2)) == 640 + 320


def test_jobs_that_do_not_fit_wait_or_are_preempted() -> None:
    """Two prompts of 700 fit 1,600 tokens; as they grow by 150 each, the second is preempted, resumed and completed."""
    jobs = [job(own=700, answer=200, own_key=number) for number in (1, 2)]
    replica = Replica(0, MODEL, SIZES)
    finish(replica, *jobs)
    assert all(each.ended < NEVER for each in jobs)
    assert jobs[1].ended > jobs[0].ended
    assert replica.cache.held == 0


def test_a_job_that_would_wait_for_too_long_is_rejected() -> None:
    """With two slots, jobs are rejected after the first answers have shown how long one takes."""
    replica = Replica(0, MODEL, Sizes(max_batch_sequences=2, max_queue_wait_s=0.5))
    jobs = [job(own_key=number, answer=40) for number in range(4)]
    late = [job(5.0, own_key=number, answer=40) for number in range(10, 20)]
    finish(replica, *jobs, *late)
    assert not any(each.refused for each in jobs)
    assert 0 < sum(each.refused for each in late) < 10


@pytest.mark.slow
@pytest.mark.parametrize("num_blocks", [24_000, 3_000])
def test_it_decides_as_the_products_scheduler_does(num_blocks: int) -> None:
    """The figures of three replicas under conversations and a hot key differ by less than 10 %."""
    model = StepModel(replace(EXAMPLE, num_blocks=num_blocks))
    traffic = Traffic(8.0, 20.0, think_s=4.0, hot_per_s=1.0)
    figures = [
        numbers(
            Simulation(lambda number, kind=kind: kind(number, model, SIZES), Maglev(1.5), 3).run(Source(traffic, 1)),  # type: ignore[misc]
            Target(),
        )
        for kind in (Replica, ProductReplica)
    ]
    for name in ("requests", "prefix_hits", "first_token_p50_s", "first_token_p95_s", "gap_p50_s", "busy"):
        assert figures[0][name] == pytest.approx(figures[1][name], rel=0.1), name
