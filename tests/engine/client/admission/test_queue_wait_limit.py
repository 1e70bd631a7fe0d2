"""The default limit of the queue wait follows the speed at which the engine computes prompts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from service.engine.client.admission.queue_wait_limit import QueueWaitLimit
from service.generation.stats import EngineStats

_numbers: Iterator[int] = itertools.count(1)


def step(num_tokens: int, seconds: float, num_sequences: int = 1) -> EngineStats:
    """Return the state after a step."""
    return EngineStats(
        step_tokens=num_tokens, step_time_s=seconds, step_sequences=num_sequences, num_steps=next(_numbers)
    )


@pytest.mark.parametrize(
    ("tokens_per_s", "expected_s"), [(100_000, 2.0), (8192, 2.0), (4096, 4.0), (1024, 16.0), (512, 30.0), (1, 30.0)]
)
def test_a_slower_model_has_a_longer_limit(tokens_per_s: int, expected_s: float) -> None:
    """The limit is the time of 16,384 tokens, at least 2 and at most 30 s; before measurements it is 2 s."""
    limit = QueueWaitLimit(None)
    assert limit.seconds == 2.0
    for num_tokens in (512, 64, 2048):
        limit.record_step(step(num_tokens, num_tokens / tokens_per_s))
    assert limit.seconds == pytest.approx(expected_s)


def test_decodes_are_not_measured() -> None:
    """Steps of decodes, and idle engines that report their last step again, don't change the limit."""
    limit = QueueWaitLimit(None)
    prefill = step(512, 0.5)
    limit.record_step(prefill)
    for _ in range(100):
        limit.record_step(step(1, 0.1))
        limit.record_step(step(64, 1.0, 64))
        limit.record_step(step(65, 1.0, 17))
    assert limit.seconds == 16.0
    limit.record_step(last := step(512, 0.25))
    changed = limit.seconds
    limit.record_step(last)
    assert 8 < limit.seconds == changed < 16


def test_the_setting_is_the_limit() -> None:
    """If `max_queue_wait_s` is set, nothing is measured."""
    limit = QueueWaitLimit(3.5)
    limit.record_step(step(512, 100.0))
    assert limit.seconds == 3.5
