"""OverloadDetector: the limits during an overload, from measured rates that a test makes up."""

from __future__ import annotations

import math

import pytest

from service.engine.client.overload import OverloadDetector

SLOTS = 64
NOW = 100.0


def measured(**rates: float) -> OverloadDetector:
    """Return a detector with measured rates: `n8=100.0` is a second with 8 running choices at 100 tokens per second."""
    detector = OverloadDetector()
    now, num_tokens = NOW - len(rates), 0.0
    for name, rate in rates.items():
        detector.record_step(now, int(name.removeprefix("n")), int(num_tokens))
        now, num_tokens = now + 1, num_tokens + rate
        detector.record_step(now, 0, int(num_tokens))
    return detector


def max_running_under_overload(detector: OverloadDetector, now: float = NOW) -> float:
    """Start an overload, and return the number of choices that may run."""
    detector.record_rejection(now)
    return detector.max_running(now, SLOTS)


def test_lower_limits_apply_from_a_rejection_until_two_seconds_after_the_last() -> None:
    """Before and after an overload the limits are those of the settings."""
    detector = measured(n4=100.0, n64=100.0)
    assert (detector.max_wait_s(NOW, 2.0), detector.max_running(NOW, SLOTS)) == (2.0, SLOTS)
    for rejected in (NOW, NOW + 1):
        detector.record_rejection(rejected)
    for now in (NOW + 1, NOW + 2.9):
        assert (detector.max_wait_s(now, 2.0), detector.max_running(now, SLOTS)) == (0.1, 7)
    assert (detector.max_wait_s(NOW + 3, 2.0), detector.max_running(NOW + 3, SLOTS)) == (2.0, SLOTS)


@pytest.mark.parametrize("max_wait_s", [0.05, 0.1])
def test_a_shorter_wait_in_the_settings_applies(max_wait_s: float) -> None:
    """During an overload, the limit of the queue wait is the smaller of the setting and 0.1 seconds."""
    detector = OverloadDetector()
    detector.record_rejection(0.0)
    assert detector.max_wait_s(0.0, max_wait_s) == max_wait_s


def test_max_running_reaches_most_of_the_best_rate() -> None:
    """Rates are measured by the bit length of the number: 8 to 15 reach 80 % of the best rate, 4 to 7 too little."""
    assert max_running_under_overload(measured(n1=100.0, n5=700.0, n9=800.0, n40=1000.0)) == 15


def test_all_slots_are_used_if_each_further_choice_raises_the_rate() -> None:
    """All slots are used if no smaller number reaches three quarters of the best rate."""
    assert max_running_under_overload(measured(n1=100.0, n8=700.0, n64=4000.0)) == SLOTS


def test_at_least_four_choices_may_run() -> None:
    """Four choices may run regardless of the measurements. Without measurements, all slots are used."""
    assert max_running_under_overload(measured(n1=1000.0, n2=1000.0, n8=900.0)) == 4
    assert max_running_under_overload(OverloadDetector()) == SLOTS, "nothing was measured"


def test_measurements_are_forgotten() -> None:
    """New measurements replace old ones, and all measurements expire after a minute."""
    detector = measured(n8=1000.0, n64=1000.0)
    assert max_running_under_overload(detector) == 15
    for tenth in range(40):
        detector.record_step(NOW + tenth / 10, 8, 2000 + 50 * tenth)
    assert max_running_under_overload(detector, NOW + 4) == SLOTS, (
        "eight choices are slower since other work uses a core"
    )
    assert max_running_under_overload(detector, NOW + 62) == 15, "the rate of 64 has expired"
    assert max_running_under_overload(detector, NOW + 80) == SLOTS, "all rates have expired"


def test_overload_of_half_a_minute_keeps_the_smaller_limit() -> None:
    """The rate of a few choices stays known while many run."""
    detector = measured(n8=900.0, n64=1000.0)
    for tenth in range(300):
        detector.record_step(NOW + tenth / 10, 64, 1900 + 100 * tenth)
    assert max_running_under_overload(detector, NOW + 30) == 15


def test_late_requests_are_rejected_after_a_second_or_during_an_overload() -> None:
    """A request in time resets the second, because only the requests before it were delayed."""
    detector = OverloadDetector()
    assert not detector.record_delay(NOW, is_late=True)
    assert not detector.record_delay(NOW + 0.9, is_late=True)
    assert detector.record_delay(NOW + 1.0, is_late=True)
    assert not detector.record_delay(NOW + 1.1, is_late=False)
    assert not detector.record_delay(NOW + 1.2, is_late=True)
    assert not detector.record_delay(NOW + 3.3, is_late=True), "after a pause"
    detector.record_rejection(NOW + 3.4)
    assert detector.record_delay(NOW + 3.5, is_late=True)


def test_the_wait_may_be_unlimited_without_overload() -> None:
    """Without an overload, an infinite limit stays infinite."""
    assert OverloadDetector().max_wait_s(0.0, math.inf) == math.inf
