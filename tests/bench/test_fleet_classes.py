"""Three service classes on one overloaded, simulated replica with the product's scheduler."""

from __future__ import annotations

import pytest

from bench.fleet.classes import class_rows, jain
from bench.fleet.simulated.service_classes import CLASSES, ClassJob, jobs_of, most_good
from bench.fleet.simulated.step_model import EXAMPLE, StepModel


@pytest.mark.slow
def test_service_levels_are_kept_under_overload() -> None:
    """Good answers are 0.9 of a clairvoyant scheduler's, 1.3 times FIFO's and EDF's, equal among keys; none is late."""
    levels, fifo, edf = class_rows(StepModel(EXAMPLE), 1, [26.0], 12.0)
    assert float(levels["good"]) >= 0.9 * float(levels["clairvoyant"])
    assert float(levels["good"]) >= 1.3 * float(fifo["good"])
    assert float(levels["good"]) >= 1.3 * float(edf["good"])
    assert float(levels["fairness"]) >= 0.98
    assert levels["late"] == 0
    assert float(fifo["late"]) > 0
    assert float(levels["clairvoyant"]) <= float(levels["bound"])


def test_good_answers_are_within_the_limits_of_their_class() -> None:
    """An answer is good if its first token and the mean time between tokens are in time, and it is whole."""
    interactive = CLASSES[0]
    assert interactive.level == (0.5, 0.03)
    for first_s, ended_s, until, is_good in ((0.4, 0.6, 2, True), (0.6, 0.8, 2, False), (0.4, 0.8, 2, False)):
        job = ClassJob(1.0, interactive, "key", 10, 11, 1 + first_s, 1 + ended_s)
        assert job.is_good(until) == is_good
    assert not ClassJob(1.0, CLASSES[2], "key", 10, 11).is_good(100)


def test_bound_counts_the_cheapest_answers() -> None:
    """Of answers that cost 1, 2 and 4 seconds, two and a quarter fit into 4 seconds."""
    assert most_good([4.0, 1.0, 2.0], 4.0) == 2.25


def test_jobs_are_the_same_for_each_order() -> None:
    """The same seed gives the same jobs, shared equally among the keys."""
    first, second = (jobs_of(20.0, 5.0, 4, 3) for _ in range(2))
    fields = [[(job.arrived, job.key, job.prompt, job.answer) for job in jobs] for jobs in (first, second)]
    assert fields[0] == fields[1]
    numbers = [sum(job.key == f"key {key}" for job in first) for key in range(4)]
    assert max(numbers) - min(numbers) <= 1


def test_jains_index() -> None:
    """The index is 1 for equal values, and 1 / n if one of n has everything."""
    assert jain([3, 3, 3]) == 1.0
    assert jain([4, 0, 0, 0]) == 0.25
