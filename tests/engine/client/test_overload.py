"""What is done as long as more is asked than can be done: computed by hand."""

from __future__ import annotations

import math

import pytest

from service.engine.client.overload import OverloadDetector

PLACES = 64
NOW = 100.0


def measured(**rates: float) -> OverloadDetector:
    """Return a detector with measured rates: `n8=100.0` is a second with 8 running answers at 100 tokens a second."""
    detector = OverloadDetector()
    now, num_tokens = NOW - len(rates), 0.0
    for name, rate in rates.items():
        detector.record_step(now, int(name.removeprefix("n")), int(num_tokens))
        now, num_tokens = now + 1, num_tokens + rate
        detector.record_step(now, 0, int(num_tokens))
    return detector


def enough(detector: OverloadDetector, now: float = NOW) -> float:
    detector.record_rejection(now)
    return detector.max_running(now, PLACES)


def test_the_settings_count_until_somebody_is_refused_and_again_two_seconds_after_the_last() -> None:
    detector = measured(n4=100.0, n64=100.0)
    assert (detector.max_wait_s(NOW, 2.0), detector.max_running(NOW, PLACES)) == (2.0, PLACES)
    for refused in (NOW, NOW + 1):
        detector.record_rejection(refused)
    for now in (NOW + 1, NOW + 2.9):
        assert (detector.max_wait_s(now, 2.0), detector.max_running(now, PLACES)) == (0.1, 7)
    assert (detector.max_wait_s(NOW + 3, 2.0), detector.max_running(NOW + 3, PLACES)) == (2.0, PLACES)


@pytest.mark.parametrize("max_wait_s", [0.05, 0.1])
def test_a_shorter_wait_that_is_set_counts(max_wait_s: float) -> None:
    detector = OverloadDetector()
    detector.record_rejection(0.0)
    assert detector.max_wait_s(0.0, max_wait_s) == max_wait_s


def test_as_many_run_as_are_enough_for_most_of_the_speed() -> None:
    """Numbers count by their bit length: what 8 to 15 do is 80 % of the best, what 4 to 7 do is not enough."""
    assert enough(measured(n1=100.0, n5=700.0, n9=800.0, n40=1000.0)) == 15


def test_where_each_further_answer_makes_it_faster_all_places_are_used() -> None:
    assert enough(measured(n1=100.0, n8=700.0, n64=4000.0)) == PLACES


def test_a_few_may_run_whatever_was_measured() -> None:
    assert enough(measured(n1=1000.0, n2=1000.0, n8=900.0)) == 4
    assert enough(OverloadDetector()) == PLACES, "nothing was measured"


def test_what_was_measured_is_forgotten() -> None:
    """By what is measured anew, and after a minute."""
    detector = measured(n8=1000.0, n64=1000.0)
    assert enough(detector) == 15
    for tenth in range(40):
        detector.record_step(NOW + tenth / 10, 8, 2000 + 50 * tenth)
    assert enough(detector, NOW + 4) == PLACES, "other work has one of the two cores now"
    assert enough(detector, NOW + 62) == 15, "nobody knows any more what 64 do"
    assert enough(detector, NOW + 80) == PLACES, "nothing is known"


def test_overload_of_half_a_minute_keeps_the_smaller_limit() -> None:
    """Only the many are measured while there are many."""
    detector = measured(n8=900.0, n64=1000.0)
    for tenth in range(300):
        detector.record_step(NOW + tenth / 10, 64, 1900 + 100 * tenth)
    assert enough(detector, NOW + 30) == 15


def test_late_requests_are_refused_after_a_second_of_them_or_under_overload() -> None:
    """One that comes in time shows that nothing but a moment was lost."""
    detector = OverloadDetector()
    assert not detector.record_delay(NOW, is_late=True)
    assert not detector.record_delay(NOW + 0.9, is_late=True)
    assert detector.record_delay(NOW + 1.0, is_late=True)
    assert not detector.record_delay(NOW + 1.1, is_late=False)
    assert not detector.record_delay(NOW + 1.2, is_late=True)
    assert not detector.record_delay(NOW + 3.3, is_late=True), "after a pause"
    detector.record_rejection(NOW + 3.4)
    assert detector.record_delay(NOW + 3.5, is_late=True)


def test_the_wait_may_be_without_bound_until_then() -> None:
    assert OverloadDetector().max_wait_s(0.0, math.inf) == math.inf
