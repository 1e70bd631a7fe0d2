"""The time at which the engine must end a request."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from service.prompting.preparation import Preparation
from tests.service.preparation.fakes import chat, request_of


async def test_engine_deadline_is_the_calls_deadline(preparation: Preparation) -> None:
    """By default the engine's deadline is the call's."""
    for deadline in (None, 7e9):
        generation = request_of(await preparation.prepare(chat(), "r", deadline))
        assert (generation.deadline, generation.truncates_at_deadline) == (deadline, False)
        assert (generation.priority, generation.cache_salt) == (0, "")


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> float:
    """Return a fixed time far in the future, at which the clock stands, so that the threads have enough time."""
    now = time.monotonic() + 1e6
    monkeypatch.setattr("service.prompting.preparation.time", SimpleNamespace(monotonic=lambda: now))
    return now


@pytest.mark.parametrize(("room_s", "margin_s"), [(1000.0, 1.0), (5.0, 0.5), (1.0, 0.2), (0.2, 0.1)])
async def test_request_that_truncates_ends_before_its_deadline(
    preparation: Preparation, now: float, room_s: float, margin_s: float
) -> None:
    """The margin to send the answer is a tenth of the time, between 0.2 s and 1 s, but at most half of it."""
    generation = request_of(await preparation.prepare(chat(truncates=True), "r", now + room_s))
    assert generation.truncates_at_deadline
    assert generation.deadline == pytest.approx(now + room_s - margin_s, abs=1e-6)


async def test_deadline_in_the_past_is_unchanged(preparation: Preparation, now: float) -> None:
    """A deadline in the past isn't changed."""
    assert request_of(await preparation.prepare(chat(truncates=True), "r", now - 1.0)).deadline == now - 1.0


async def test_no_truncation_deadline_without_a_deadline(preparation: Preparation) -> None:
    """Without a deadline none is set."""
    generation = request_of(await preparation.prepare(chat(truncates=True), "r"))
    assert (generation.deadline, generation.truncates_at_deadline) == (None, True)
