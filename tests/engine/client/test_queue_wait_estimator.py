"""QueueWaitEstimator: the expected queue wait, from measurements that a test makes up."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from service.engine.client.queue_wait import KeyLoad, QueueWaitEstimator, has_small_load, load_of_peers

SLOTS = 4


def settled(run_s: float = 2.0) -> QueueWaitEstimator:
    """Return an estimator of an engine whose sequences run for `run_s` seconds."""
    queue_wait = QueueWaitEstimator()
    queue_wait.record_end(run_s)
    return queue_wait


def wait_s(
    queue_wait: QueueWaitEstimator, loads: dict[str, KeyLoad], caller_id: str = "a", ages_s: Sequence[float] = ()
) -> float:
    """Return the expected wait.

    Running sequences have run for `ages_s`, by default for different loads of two seconds.
    """
    num_running = sum(load.num_running for load in loads.values())
    return queue_wait.wait_s(caller_id, loads, SLOTS, ages_s or [1.5 - 0.5 * index for index in range(num_running)])


def test_there_is_no_wait_while_a_slot_is_free() -> None:
    """With a free slot and an empty queue, the expected wait is 0."""
    assert wait_s(settled(), {"a": KeyLoad(1, 0, 3)}) == 0.0


def test_a_request_that_finds_a_slot_does_not_wait_for_one() -> None:
    """The wait is 0 as long as there are slots for all queued requests."""
    queue_wait = settled()
    queue_wait.record_arrival(0.0, 0)
    assert wait_s(queue_wait, {"a": KeyLoad(1, 3, 0)}) == 0.0
    assert wait_s(QueueWaitEstimator(), {"a": KeyLoad(1, 2, 1)}) == 0.0
    assert wait_s(queue_wait, {"a": KeyLoad(1, 3, 1)}) == pytest.approx(0.5), "one request too many"


def test_earlier_prompts_take_the_measured_time() -> None:
    """Even with free slots, a request waits for the prompts before its own."""
    queue_wait = QueueWaitEstimator()
    queue_wait.record_arrival(0.0, 0)
    for beginning in range(1, 5):
        queue_wait.record_start(0.5 * beginning, 1)
    assert wait_s(queue_wait, {"a": KeyLoad(1, 2, 0)}) == pytest.approx(1.5)


def test_a_full_batch_frees_slots_by_the_average_run_time() -> None:
    """Four slots of two seconds release one per 0.5 s, so two queued requests and the new one wait for 1.5 s."""
    queue_wait = settled()
    queue_wait.record_arrival(0.0, 0)
    assert wait_s(queue_wait, {"a": KeyLoad(1, 2, 4)}) == pytest.approx(1.5)
    assert wait_s(queue_wait, {"a": KeyLoad(1, 6, 4)}) == pytest.approx(2.0 + 1.5), (
        "four of the queued requests run first"
    )


def test_slots_that_are_released_together_start_as_many_requests() -> None:
    """A queue as long as the batch waits for the end of the batch."""
    assert wait_s(settled(), {"a": KeyLoad(1, 3, 4)}, ages_s=[1.0] * 4) == pytest.approx(1.0)


def test_sequences_that_run_longer_than_others_may_end_at_any_time() -> None:
    """Each of the four slots is released after a quarter of the average run time."""
    assert wait_s(settled(), {"a": KeyLoad(1, 0, 4)}, ages_s=[4.0] * 4) == pytest.approx(1.0)


def test_sequences_that_run_longer_than_others_end_one_after_another() -> None:
    """Three slots are released after three quarters of the average run time, however short it was measured."""
    assert wait_s(settled(), {"a": KeyLoad(1, 2, 4)}, ages_s=[4.0] * 4) == pytest.approx(3.0)


def test_no_slot_is_expected_at_once() -> None:
    """A sequence that has run almost as long as the average still takes the average time between two ends."""
    assert wait_s(settled(), {"a": KeyLoad(1, 0, 4)}, ages_s=[1.99] * 4) == pytest.approx(0.5)


def test_the_measured_rate_of_starts_counts_if_it_is_faster() -> None:
    """The time between starts is measured while requests are queued, and forgotten when the queue is empty."""
    queue_wait = settled()
    queue_wait.record_arrival(0.0, 0)
    for beginning in range(1, 6):
        queue_wait.record_start(0.1 * beginning, 1)
    assert wait_s(queue_wait, {"a": KeyLoad(1, 2, 4)}) == pytest.approx(0.3)
    queue_wait.record_arrival(9.0, 0)
    assert wait_s(queue_wait, {"a": KeyLoad(1, 2, 4)}) == pytest.approx(1.5)


def test_several_starts_in_one_step_are_counted() -> None:
    """Four starts in one step per second are a rate of four per second."""
    queue_wait = QueueWaitEstimator()
    queue_wait.record_arrival(0.0, 0)
    for second in range(1, 4):
        queue_wait.record_start(float(second), 4)
    assert wait_s(queue_wait, {"a": KeyLoad(1, 3, 4)}, ages_s=[9.0] * 4) == pytest.approx(1.0)


def test_a_key_s_wait_depends_on_its_share() -> None:
    """Before a key's first request, other keys' requests start in proportion to weight, however long their queue is."""
    queue_wait = settled()
    queue_wait.record_arrival(0.0, 0)
    loads = {"a": KeyLoad(1, 1, 2), "b": KeyLoad(1, 160, 2)}
    assert wait_s(queue_wait, loads) == pytest.approx((1 + 2 + 1) * 0.5)
    assert wait_s(queue_wait, {**loads, "a": KeyLoad(4, 1, 2)}) == pytest.approx(3 * 0.5), "1.5 is rounded up to 2"
    assert wait_s(queue_wait, loads, "b") == pytest.approx((160 + 1 + 1) * 0.5, abs=0.5)


def test_a_key_below_its_share_does_not_wait() -> None:
    """A key below its share starts immediately if another key exceeds its own. Otherwise both wait."""
    queue_wait = settled()
    queue_wait.record_arrival(0.0, 0)
    assert wait_s(queue_wait, {"a": KeyLoad(1, 0, 1), "b": KeyLoad(1, 160, 4)}) == 0.0
    assert wait_s(queue_wait, {"a": KeyLoad(1, 0, 2), "b": KeyLoad(1, 0, 2)}) == pytest.approx(0.5)


def test_keys_below_their_share_wait_for_each_other() -> None:
    """Of many such keys only as many need not wait as there are sequences above a share, and free slots."""
    queue_wait = settled()
    queue_wait.record_arrival(0.0, 0)
    loads = {"b": KeyLoad(1, 0, 3), **{f"c{index}": KeyLoad(1, 0, 1) for index in range(1)}, "a": KeyLoad(1, 0, 0)}
    waiting = {f"d{index}": KeyLoad(1, 1, 0) for index in range(2)}
    assert wait_s(queue_wait, {**loads, "d0": waiting["d0"]}) == 0.0, "two sequences of b are above its share"
    assert wait_s(queue_wait, {**loads, **waiting}) > 0.0
    ages_s = [1.5, 1.0, 0.5]  # a slot is free
    assert wait_s(queue_wait, {**loads, "c0": KeyLoad(1, 0, 0), **waiting}, ages_s=ages_s) == 0.0


def test_excess_sequences_must_end_before_a_request_starts() -> None:
    """If six sequences run in four slots, three must end first, one every third of a second."""
    ages_s = [5 / 3, 4 / 3, 1.0, 2 / 3, 1 / 3, 0.0]
    assert wait_s(settled(), {"a": KeyLoad(1, 0, 6)}, ages_s=ages_s) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("mine", "most", "little"),
    [
        (KeyLoad(1.0, 0, 0), KeyLoad(1.0, 0, 1), True),
        (KeyLoad(1.0, 1, 1), KeyLoad(1.0, 3, 2), True),
        (KeyLoad(1.0, 1, 1), KeyLoad(1.0, 2, 2), False),  # exactly half
        (KeyLoad(2.0, 1, 1), KeyLoad(1.0, 2, 1), True),  # loads are divided by weight
        (KeyLoad(1.0, 1, 1), KeyLoad(2.0, 3, 2), False),
    ],
)
def test_a_key_below_half_of_the_largest_load_has_small_load(mine: KeyLoad, most: KeyLoad, little: bool) -> None:  # noqa: FBT001
    """The load is relative to the largest of all keys, so a single key never has a small load."""
    assert has_small_load("mine", {"mine": mine, "most": most, "one": KeyLoad(1.0, 0, 1)}) is little
    assert not has_small_load("mine", {"mine": mine})


def test_peers_are_keys_with_as_much_load_as_a_key_with_one_more_request() -> None:
    """A flood's requests are not among them, and loads are divided by weight."""
    loads = {
        "mine": KeyLoad(1.0, 0, 0),
        "flood": KeyLoad(1.0, 9, 4),
        "one": KeyLoad(1.0, 1, 0),
        "two": KeyLoad(2.0, 1, 1),
    }
    assert load_of_peers("mine", loads) == 3
    assert load_of_peers("flood", loads) == 16
