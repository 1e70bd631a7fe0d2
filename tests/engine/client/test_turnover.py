"""How long a request would wait, by what was measured: computed by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from service.engine.client.queue_wait import KeyLoad, QueueWaitEstimator, has_little

PLACES = 4


def settled(stay_s: float = 2.0) -> QueueWaitEstimator:
    """An engine whose sequences run for that long."""
    queue_wait = QueueWaitEstimator()
    queue_wait.ended(stay_s)
    return queue_wait


def wait_s(
    queue_wait: QueueWaitEstimator, parts: dict[str, KeyLoad], caller_id: str = "a", ages_s: Sequence[float] = ()
) -> float:
    """Those that run have run for `ages_s`; by default, each for another part of two seconds."""
    num_running = sum(part.num_running for part in parts.values())
    return queue_wait.wait_s(caller_id, parts, PLACES, ages_s or [1.5 - 0.5 * index for index in range(num_running)])


def test_where_a_place_is_free_nobody_waits() -> None:
    """And nobody is in line."""
    assert wait_s(settled(), {"a": KeyLoad(1, 0, 3)}) == 0.0


def test_who_finds_a_place_does_not_wait_for_one() -> None:
    """Though others came just before and have not begun: there is a place for each."""
    queue_wait = settled()
    queue_wait.came(0.0, 0)
    assert wait_s(queue_wait, {"a": KeyLoad(1, 3, 0)}) == 0.0
    assert wait_s(QueueWaitEstimator(), {"a": KeyLoad(1, 2, 1)}) == 0.0
    assert wait_s(queue_wait, {"a": KeyLoad(1, 3, 1)}) == pytest.approx(0.5), "one too many"


def test_prompts_that_come_before_take_the_time_that_such_took() -> None:
    """Also where there is a place for each."""
    queue_wait = QueueWaitEstimator()
    queue_wait.came(0.0, 0)
    for beginning in range(1, 5):
        queue_wait.began(0.5 * beginning, 1)
    assert wait_s(queue_wait, {"a": KeyLoad(1, 2, 0)}) == pytest.approx(1.5)


def test_where_all_places_are_taken_the_line_moves_as_they_are_given_back() -> None:
    """Four places for two seconds each, one every half second; two in line and the newcomer make 1.5 s."""
    queue_wait = settled()
    queue_wait.came(0.0, 0)
    assert wait_s(queue_wait, {"a": KeyLoad(1, 2, 4)}) == pytest.approx(1.5)
    assert wait_s(queue_wait, {"a": KeyLoad(1, 6, 4)}) == pytest.approx(2.0 + 1.5), "they stay for two seconds, too"


def test_answers_that_end_together_let_as_many_begin() -> None:
    """A line as long as the batch waits for its end."""
    assert wait_s(settled(), {"a": KeyLoad(1, 3, 4)}, ages_s=[1.0] * 4) == pytest.approx(1.0)


def test_answers_that_stay_longer_than_others_did_may_end_at_any_time() -> None:
    """Each of the four places is given back after a quarter of what they have stayed on average."""
    assert wait_s(settled(), {"a": KeyLoad(1, 0, 4)}, ages_s=[4.0] * 4) == pytest.approx(1.0)


def test_the_pace_that_was_seen_counts_where_it_is_faster() -> None:
    """While there is a line, the time between two beginnings is measured; when the line has gone, that is forgotten."""
    queue_wait = settled()
    queue_wait.came(0.0, 0)
    for beginning in range(1, 6):
        queue_wait.began(0.1 * beginning, 1)
    assert wait_s(queue_wait, {"a": KeyLoad(1, 2, 4)}) == pytest.approx(0.3)
    queue_wait.came(9.0, 0)
    assert wait_s(queue_wait, {"a": KeyLoad(1, 2, 4)}) == pytest.approx(1.5)


def test_many_beginnings_at_once_are_as_many() -> None:
    """Four in one step after a second, and nothing else, are four a second."""
    queue_wait = QueueWaitEstimator()
    queue_wait.came(0.0, 0)
    for second in range(1, 4):
        queue_wait.began(float(second), 4)
    assert wait_s(queue_wait, {"a": KeyLoad(1, 3, 4)}, ages_s=[9.0] * 4) == pytest.approx(1.0)


def test_a_key_s_wait_is_its_own() -> None:
    """Before a key's first request as many of another's begin as are due by weight, however long that line is."""
    queue_wait = settled()
    queue_wait.came(0.0, 0)
    parts = {"a": KeyLoad(1, 1, 2), "b": KeyLoad(1, 160, 2)}
    assert wait_s(queue_wait, parts) == pytest.approx((1 + 2 + 1) * 0.5)
    assert wait_s(queue_wait, {**parts, "a": KeyLoad(4, 1, 2)}) == pytest.approx(3 * 0.5), "one and a half, so two"
    assert wait_s(queue_wait, parts, "b") == pytest.approx((160 + 1 + 1) * 0.5, abs=0.5)


def test_a_key_below_its_share_does_not_wait() -> None:
    """It begins beside a key that has more than its share of places; two that have theirs wait in line."""
    queue_wait = settled()
    queue_wait.came(0.0, 0)
    assert wait_s(queue_wait, {"a": KeyLoad(1, 0, 1), "b": KeyLoad(1, 160, 4)}) == 0.0
    assert wait_s(queue_wait, {"a": KeyLoad(1, 0, 2), "b": KeyLoad(1, 0, 2)}) == pytest.approx(0.5)


def test_where_more_run_than_are_to_run_those_end_before_another_begins() -> None:
    """Six run where there are four places: three have to end, one every third of a second."""
    ages_s = [5 / 3, 4 / 3, 1.0, 2 / 3, 1 / 3, 0.0]
    assert wait_s(settled(), {"a": KeyLoad(1, 0, 6)}, ages_s=ages_s) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("mine", "most", "little"),
    [
        (KeyLoad(1.0, 0, 0), KeyLoad(1.0, 0, 1), True),
        (KeyLoad(1.0, 1, 1), KeyLoad(1.0, 3, 2), True),
        (KeyLoad(1.0, 1, 1), KeyLoad(1.0, 2, 2), False),  # just half
        (KeyLoad(2.0, 1, 1), KeyLoad(1.0, 2, 1), True),  # it counts by weight
        (KeyLoad(1.0, 1, 1), KeyLoad(2.0, 3, 2), False),
    ],
)
def test_who_has_less_than_half_of_the_largest_has_little(mine: KeyLoad, most: KeyLoad, little: bool) -> None:  # noqa: FBT001
    """Of all keys, and nobody has where there is one alone."""
    assert has_little("mine", {"mine": mine, "most": most, "one": KeyLoad(1.0, 0, 1)}) is little
    assert not has_little("mine", {"mine": mine})
