"""What is done as long as more is asked than can be done: computed by hand."""

from __future__ import annotations

import math

import pytest

from service.engine.crowd import Crowd

PLACES = 64


def measured(**rates: float) -> Crowd:
    """With so many tokens a second measured for a second of each number of running answers, as `n8=100.0`."""
    crowd = Crowd()
    now, num_tokens = 0.0, 0.0
    for name, rate in rates.items():
        crowd.stepped(now, int(name.removeprefix("n")), int(num_tokens))
        now, num_tokens = now + 1, num_tokens + rate
        crowd.stepped(now, 0, int(num_tokens))
        now += 100  # of nothing to do, which says nothing
    return crowd


def enough(crowd: Crowd) -> float:
    crowd.refused(1000.0)
    return crowd.max_running(1000.0, PLACES)


def test_the_settings_count_until_somebody_is_refused_and_again_two_seconds_after_the_last() -> None:
    crowd = measured(n4=100.0, n64=100.0)
    assert (crowd.max_wait_s(0.0, 2.0), crowd.max_running(0.0, PLACES)) == (2.0, PLACES)
    for refused in (10.0, 11.0):
        crowd.refused(refused)
    for now in (11.0, 12.9):
        assert (crowd.max_wait_s(now, 2.0), crowd.max_running(now, PLACES)) == (0.1, 7)
    assert (crowd.max_wait_s(13.0, 2.0), crowd.max_running(13.0, PLACES)) == (2.0, PLACES)


@pytest.mark.parametrize("max_wait_s", [0.05, 0.1])
def test_a_shorter_wait_that_is_set_counts(max_wait_s: float) -> None:
    crowd = Crowd()
    crowd.refused(0.0)
    assert crowd.max_wait_s(0.0, max_wait_s) == max_wait_s


def test_as_many_run_as_are_enough_for_most_of_the_speed() -> None:
    """Numbers count by their bit length: what 8 to 15 do is 95 % of the best, what 4 to 7 do is not enough."""
    assert enough(measured(n1=100.0, n5=800.0, n9=950.0, n40=1000.0)) == 15


def test_where_each_further_answer_makes_it_faster_all_places_are_used() -> None:
    assert enough(measured(n1=100.0, n8=700.0, n64=4000.0)) == PLACES


def test_a_few_may_run_whatever_was_measured() -> None:
    assert enough(measured(n1=1000.0, n2=1000.0, n8=900.0)) == 4
    assert enough(Crowd()) == PLACES, "nothing was measured"


def test_what_was_measured_is_forgotten_as_it_is_measured_again() -> None:
    """Eight answers were as fast as 64; now that other work has a core of the two, they are half as fast."""
    crowd = measured(n8=1000.0, n64=1000.0)
    assert enough(crowd) == 15
    for second in range(20):
        crowd.stepped(300.0 + second, 8, 2000 + 500 * second)
    assert enough(crowd) == PLACES


def test_the_wait_may_be_without_bound_until_then() -> None:
    assert Crowd().max_wait_s(0.0, math.inf) == math.inf
