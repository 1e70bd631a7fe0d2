"""How long a request would wait, by what was measured: computed by hand."""

from __future__ import annotations

import pytest

from service.engine.turnover import Part, Turnover

PLACES = 4


def settled(stay_s: float = 2.0) -> Turnover:
    """An engine whose sequences run for that long."""
    turnover = Turnover()
    turnover.ended(stay_s)
    return turnover


def wait_s(
    turnover: Turnover, parts: dict[str, Part], caller_id: str = "a", now: float = 0.0, age_s: float = 0.0
) -> float:
    return turnover.wait_s(caller_id, parts, PLACES, age_s, now)


def test_where_a_place_is_free_nobody_waits() -> None:
    """And nobody is in line."""
    assert wait_s(settled(), {"a": Part(1, 0, 3)}) == 0.0


def test_where_all_places_are_taken_the_line_moves_as_fast_as_they_are_given_back() -> None:
    """Four places for two seconds each are one every half second; two in line and the newcomer make 1.5 s."""
    turnover = settled()
    turnover.came(0.0, 0)
    assert wait_s(turnover, {"a": Part(1, 2, 4)}) == pytest.approx(1.5)
    assert wait_s(turnover, {"a": Part(1, 2, 4)}, age_s=4.0) == pytest.approx(3.0), "they stay longer than those before"


def test_the_pace_that_was_seen_counts_more_than_the_one_that_follows() -> None:
    """While there is a line, the time between two beginnings is measured; when the line has gone, that is forgotten."""
    turnover = settled()
    turnover.came(0.0, 0)
    for beginning in range(1, 6):
        turnover.began(0.1 * beginning, 1)
    assert wait_s(turnover, {"a": Part(1, 2, 4)}, now=0.5) == pytest.approx(0.3)
    turnover.came(9.0, 0)
    assert wait_s(turnover, {"a": Part(1, 2, 4)}, now=9.0) == pytest.approx(1.5)


def test_a_line_that_stands_still_gets_longer() -> None:
    """For five seconds nobody has begun, so each beginning may take as long."""
    turnover = Turnover()
    turnover.came(0.0, 0)
    assert wait_s(turnover, {"a": Part(1, 1, 2)}, now=5.0) == pytest.approx(10.0)


def test_a_key_s_wait_is_its_own() -> None:
    """Before a key's first request as many of another's begin as are due by weight, however long that line is."""
    turnover = settled()
    turnover.came(0.0, 0)
    parts = {"a": Part(1, 1, 2), "b": Part(1, 160, 2)}
    assert wait_s(turnover, parts) == pytest.approx((1 + 2 + 1) * 0.5)
    assert wait_s(turnover, {**parts, "a": Part(4, 1, 2)}) == pytest.approx((1 + 0.5 + 1) * 0.5)
    assert wait_s(turnover, parts, "b") == pytest.approx((160 + 1 + 1) * 0.5)


def test_a_key_below_its_share_does_not_wait() -> None:
    """It begins beside a key that has more than its share of places; two that have theirs wait in line."""
    turnover = settled()
    turnover.came(0.0, 0)
    assert wait_s(turnover, {"a": Part(1, 0, 1), "b": Part(1, 160, 4)}) == 0.0
    assert wait_s(turnover, {"a": Part(1, 0, 2), "b": Part(1, 0, 2)}) == pytest.approx(0.5)
