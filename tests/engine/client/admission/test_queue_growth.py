"""QueueGrowth: a queue that a burst has left is no overload, and one that does not become shorter is."""

from __future__ import annotations

import random

import pytest

from service.engine.client.admission.queue_growth import QueueGrowth

MAX_WAIT_S = 2.0
SLOTS = 4


def arrive(growth: QueueGrowth, now: float, num_waiting: int, num_open: int, max_wait_s: float = MAX_WAIT_S) -> bool:
    """Record an arrival. Return whether the queue before it was standing."""
    is_standing = growth.is_standing(now, num_waiting, num_open, max_wait_s)
    growth.record_arrivals(1)
    return is_standing


def first_overload_s(arrivals: list[float], starts_per_s: float, max_wait_s: float = MAX_WAIT_S) -> float | None:
    """Return the time at which a standing queue was detected, with requests that start at a fixed rate."""
    growth = QueueGrowth(SLOTS)
    num_waiting, started = 0.0, 0.0
    for now in arrivals:
        num_waiting = max(num_waiting - (now - started) * starts_per_s, 0.0)
        started = now
        if arrive(growth, now, int(num_waiting), int(num_waiting) + SLOTS, max_wait_s):
            return now
        num_waiting += 1
    return None


@pytest.mark.parametrize("seed", range(20))
def test_bursts_are_no_overload(seed: int) -> None:
    """Bursts that leave the queue within half of the maximal wait, with other requests at half of the rate."""
    draw = random.Random(seed)
    rate = draw.uniform(2.0, 100.0)
    arrivals = []
    for burst in range(10):
        arrivals += [10.0 * burst + draw.uniform(0, 0.2) for _ in range(int(0.25 * rate * MAX_WAIT_S))]
    arrivals += [draw.uniform(0.0, 100.0) for _ in range(int(100 * rate / 2))]
    assert first_overload_s(sorted(arrivals), rate) is None


@pytest.mark.parametrize("load", [1.0, 1.5, 2.0, 8.0])
@pytest.mark.parametrize("seed", range(10))
def test_a_queue_of_an_overload_is_detected(seed: int, load: float) -> None:
    """It is detected within two intervals after the queue has begun, at the capacity itself within ten."""
    draw = random.Random(seed)
    now, arrivals = 0.0, []
    while now < 40.0:
        arrivals.append(now)
        now += draw.expovariate(load * 20.0)
    detected = first_overload_s(arrivals, 20.0)
    assert detected is not None
    assert detected <= (4 if load > 1 else 20) * MAX_WAIT_S


def test_a_standing_queue_is_an_overload() -> None:
    """Closed-loop callers keep the queue at its length."""
    growth = QueueGrowth(SLOTS)
    found = [arrive(growth, 0.1 * index, 100 if index else 0, 100 + SLOTS) for index in range(60)]
    assert found.index(True) * 0.1 == pytest.approx(MAX_WAIT_S, abs=0.2)


def test_callers_that_come_back_at_once_are_no_overload_within_the_slots() -> None:
    """As many callers as there are slots wait only for the step of their prompts, however long they go on."""
    growth = QueueGrowth(SLOTS)
    assert not any(arrive(growth, 0.1 * index, 2, SLOTS - 1) for index in range(1000))


def test_the_interval_is_no_longer_than_the_maximal_wait() -> None:
    """With an unlimited wait it is two seconds as well."""
    for max_wait_s, interval_s in ((40.0, 2.0), (0.5, 0.5), (float("inf"), 2.0)):
        growth = QueueGrowth(SLOTS)
        times = [0.0, 0.1, *(0.3 + 0.05 * index for index in range(13)), 0.99, 1.01]
        found = [
            arrive(growth, time * interval_s, min(index, 1), SLOTS + 1, max_wait_s) for index, time in enumerate(times)
        ]
        assert found.index(True) == len(times) - 1


def test_a_few_starts_do_not_show_a_standing_queue() -> None:
    """A slow engine, of which only some requests began within the interval, is observed for longer."""
    growth = QueueGrowth(SLOTS)
    found = [arrive(growth, float(index), min(index, 1), SLOTS + 1) for index in range(12)]
    assert found.index(True) == 9
