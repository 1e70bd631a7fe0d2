"""QueueGrowth: a queue that a burst has left is no overload, and one that does not become shorter is."""

from __future__ import annotations

import random

import pytest

from service.engine.client.admission.queue_growth import QueueGrowth

MAX_WAIT_S = 2.0


def first_overload_s(arrivals: list[float], starts_per_s: float, max_wait_s: float = MAX_WAIT_S) -> float | None:
    """Return the time at which the growth of a queue was detected, with requests that start at a fixed rate."""
    growth = QueueGrowth()
    num_waiting, started = 0.0, 0.0
    for now in arrivals:
        num_waiting = max(num_waiting - (now - started) * starts_per_s, 0.0)
        started = now
        if growth.record_arrival(now, int(num_waiting), max_wait_s):
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


@pytest.mark.parametrize("load", [1.5, 2.0, 8.0])
@pytest.mark.parametrize("seed", range(10))
def test_a_growing_queue_is_an_overload(seed: int, load: float) -> None:
    """It is detected within two intervals after the queue has begun."""
    draw = random.Random(seed)
    now, arrivals = 0.0, []
    while now < 20.0:
        arrivals.append(now)
        now += draw.expovariate(load * 20.0)
    detected = first_overload_s(arrivals, 20.0)
    assert detected is not None
    assert detected <= 4 * MAX_WAIT_S


def test_a_standing_queue_is_an_overload() -> None:
    """Callers that come back at once keep the queue at its length."""
    growth = QueueGrowth()
    found = [growth.record_arrival(0.1 * index, 100 if index else 0, MAX_WAIT_S) for index in range(60)]
    assert found.index(True) * 0.1 == pytest.approx(MAX_WAIT_S, abs=0.2)


def test_the_interval_follows_the_maximal_wait() -> None:
    """It is a quarter of a long wait, and a short wait itself; with an unlimited wait there is none."""
    for max_wait_s, interval_s in ((40.0, 10.0), (4.0, 2.0), (0.5, 0.5)):
        growth = QueueGrowth()
        assert not growth.record_arrival(0.0, 0, max_wait_s)
        assert not growth.record_arrival(0.1 * interval_s, 1, max_wait_s)
        assert not growth.record_arrival(0.99 * interval_s, 1, max_wait_s)
        assert growth.record_arrival(1.01 * interval_s, 1, max_wait_s)
    growth = QueueGrowth()
    assert not any(growth.record_arrival(1e6 * index, index, float("inf")) for index in range(10))
