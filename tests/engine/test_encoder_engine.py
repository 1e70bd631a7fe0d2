"""The encoder's door: whom it lets in, what leaving does, and how it ends."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import numpy as np
import pytest
from service.engine.encoder_engine import EncoderEngine, Encoding

from service.engine.config import EngineConfig
from service.engine.encoder_core import EncodingRequest
from service.generation.errors import (
    DeadlineExceeded,
    EngineClosed,
    EngineFailed,
    EngineOverloaded,
    InvalidRequest,
    PromptTooLong,
)
from service.generation.stats import EngineStats
from tests.engine.encoder_fakes import VOCAB_SIZE, HandRunner, encoding, hand_engine, ids, started, vector_of
from tests.engine.fakes import until


def vectors_of(encoded: Encoding) -> list[list[float]]:
    return [each.tolist() for each in encoded.vectors]


async def test_encode_returns_vectors_in_the_order_of_inputs() -> None:
    """Whatever the batches were; the instants are in order."""
    lengths = [3, 1, 16, 2, 7, 9]
    async with started(max_batch_tokens=16, max_batch_sequences=16) as (engine, runner):
        encoded = await engine.encode(encoding(*lengths))
    assert vectors_of(encoded) == [vector_of(each) for each in ids(*lengths)]
    assert len(runner.batches) > 1
    assert encoded.arrived <= encoded.scheduled <= encoded.finished <= time.monotonic()


async def test_requests_run_side_by_side() -> None:
    """Two callers share batches and get their own vectors."""
    async with started() as (engine, runner):
        with runner.paused():
            first = asyncio.create_task(engine.encode(encoding(1)))
            await until(runner.entered.is_set)
            both = [asyncio.create_task(engine.encode(encoding(2, 3, token_id=each))) for each in (7, 8)]
            await until(lambda: len(engine._pending) == 3)
        await first
        answers = [vectors_of(await each) for each in both]
        assert len(runner.batches) == 2
    assert answers == [[vector_of([each] * 2), vector_of([each] * 3)] for each in (7, 8)]


@pytest.mark.parametrize(
    ("inputs", "error", "field"),
    [
        ([], InvalidRequest, "inputs"),
        ([*ids(2), np.array([], dtype=np.int64)], InvalidRequest, "inputs[1]"),
        ([*ids(2), *ids(17)], PromptTooLong, "inputs[1]"),
        (ids(1, token_id=VOCAB_SIZE), InvalidRequest, "inputs[0]"),
        (ids(1, token_id=-1), InvalidRequest, "inputs[0]"),
    ],
    ids=["none", "empty", "too long", "no such token", "negative token"],
)
async def test_bad_input_is_refused_at_the_door(inputs: Any, error: type[InvalidRequest], field: str) -> None:
    """The error names the input, and nothing of the request is computed."""
    async with started() as (engine, runner):
        with pytest.raises(error) as caught:
            await engine.encode(EncodingRequest("r", inputs))
        assert caught.value.field == field
        assert vectors_of(await engine.encode(encoding(16, token_id=VOCAB_SIZE - 1)))
    assert len(runner.batches) == 1


async def test_queue_is_full_by_requests() -> None:
    """One request too many is refused; those that wait are served."""
    async with started(max_queue_requests=2) as (engine, runner):
        with runner.paused():
            waiting = [asyncio.create_task(engine.encode(encoding(1))) for _ in range(2)]
            await until(lambda: len(engine._pending) == 2)
            with pytest.raises(EngineOverloaded, match="2 requests wait already") as caught:
                await engine.encode(encoding(1))
            assert 1 <= caught.value.retry_after_s <= 30
        await asyncio.gather(*waiting)
        assert await engine.encode(encoding(1))


async def test_queue_is_full_by_the_tokens_that_come_first() -> None:
    """A large request behind a large one is refused, a small one isn't: by turns it waits for little."""
    async with started(max_queue_tokens=100) as (engine, runner):
        with runner.paused():
            large = asyncio.create_task(engine.encode(encoding(*[10] * 20)))  # larger than the queue, alone in it
            await until(lambda: len(engine._pending) == 1)
            with pytest.raises(EngineOverloaded, match="60 tokens of other requests"):
                await engine.encode(encoding(*[10] * 6))
            small = asyncio.create_task(engine.encode(encoding(*[10] * 5)))
            await until(lambda: len(engine._pending) == 2)
        assert len((await small).vectors) == 5
        assert len((await large).vectors) == 20


async def test_tokens_that_are_computed_leave_the_queue() -> None:
    """What is left of a request counts, not what it came with."""
    async with started(max_queue_tokens=100, max_batch_tokens=64) as (engine, runner):
        runner.max_runs = 2
        large = asyncio.create_task(engine.encode(encoding(*[16] * 9)))  # 144 tokens, of which 128 are computed
        await until(lambda: len(runner.batches) == 2 and engine.stats().num_steps == 2)
        await until(lambda: [each.num_left_tokens for each in engine._pending.values()] == [16])
        other = asyncio.create_task(engine.encode(encoding(*[16] * 5)))  # 80 behind 16
        await until(lambda: len(engine._pending) == 2)
        runner.max_runs = None
        runner.gate.set()
        assert len((await other).vectors) == 5
        assert len((await large).vectors) == 9


async def test_request_whose_caller_left_is_not_computed() -> None:
    """Before its first batch, and between two, an abandoned request ends, and others go on."""
    async with started(max_batch_tokens=64) as (engine, runner):
        with runner.paused():
            begun = asyncio.create_task(engine.encode(encoding(*[16] * 400, token_id=1)))
            await until(runner.entered.is_set)
            waiting = asyncio.create_task(engine.encode(encoding(*[16] * 400, token_id=2)))
            await until(lambda: len(engine._pending) == 2)
            begun.cancel()
            waiting.cancel()
            await asyncio.gather(begun, waiting, return_exceptions=True)
            assert not engine._pending
        assert vectors_of(await engine.encode(encoding(1, token_id=3))) == [vector_of([3])]
        assert engine.stats().num_waiting == 0
    assert [batch[0][0] for batch in runner.batches] == [1, 3]


@pytest.mark.parametrize("moment", ["before", "within"])
async def test_request_ends_at_its_deadline(moment: str) -> None:
    """DeadlineExceeded, at the door or at the next batch, and nothing of it is computed after."""
    async with started(max_batch_tokens=64) as (engine, runner):
        if moment == "before":
            with pytest.raises(DeadlineExceeded):
                await engine.encode(encoding(1, deadline=time.monotonic()))
        else:
            with runner.paused():
                large = asyncio.create_task(engine.encode(encoding(*[16] * 9, deadline=time.monotonic() + 0.05)))
                await until(runner.entered.is_set)
                await asyncio.sleep(0.06)
            with pytest.raises(DeadlineExceeded):
                await large
        assert engine.stats().num_waiting == 0
    assert len(runner.batches) == (moment == "within")


async def test_drain_lets_running_requests_end() -> None:
    """New callers are refused, those within get their vectors."""
    async with started() as (engine, runner):
        with runner.paused():
            running = asyncio.create_task(engine.encode(encoding(1)))
            await until(runner.entered.is_set)
            draining = asyncio.create_task(engine.drain(60))
            await until(lambda: engine._is_closed)
            with pytest.raises(EngineClosed):
                await engine.encode(encoding(1))
            assert not draining.done()
        assert vectors_of(await running) == [vector_of([1])]
        await draining


async def test_drain_ends_what_does_not_end_in_time() -> None:
    """Past the time a request ends with EngineClosed, and no batch of it follows."""
    async with started(max_batch_tokens=64) as (engine, runner):
        with runner.paused():
            running = asyncio.create_task(engine.encode(encoding(*[16] * 100)))
            await until(runner.entered.is_set)
            await engine.drain(0)
            with pytest.raises(EngineClosed):
                await running
        await until(lambda: engine.stats().num_waiting == 0)
    assert len(runner.batches) == 1


async def test_engine_closes_once_and_its_thread_ends() -> None:
    """Closing is possible before the start and twice."""
    engine = hand_engine(HandRunner())
    await engine.close()
    engine.start()
    await engine.encode(encoding(1))
    await engine.close()
    await engine.close()
    engine._thread._thread.join(20)
    assert not engine._thread._thread.is_alive()


def test_engine_thread_ends_with_its_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that nobody closed does not outlive the loop that it reports to."""
    monkeypatch.setattr("service.engine.engine_thread._HEARTBEAT_S", 0.01)

    async def leave() -> EncoderEngine:
        engine = hand_engine(HandRunner())
        engine.start()
        return engine

    engine = asyncio.run(leave())
    engine._thread._thread.join(20)
    assert not engine._thread._thread.is_alive()


async def test_runner_that_breaks_fails_everybody() -> None:
    """All requests end with EngineFailed, those to come too, and `failed` has the reason."""
    async with started() as (engine, runner):
        with runner.paused():
            running = [asyncio.create_task(engine.encode(encoding(1))) for _ in range(2)]
            await until(lambda: len(engine._pending) == 2)
            runner.fail_with = RuntimeError("no memory")
        for each in running:
            with pytest.raises(EngineFailed) as caught:
                await each
            assert caught.value.__cause__ is runner.fail_with
        assert await engine.failed is runner.fail_with
        with pytest.raises(EngineFailed):
            await engine.encode(encoding(1))


async def test_heartbeat_goes_on_when_idle_and_stops_when_a_batch_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its age tells an idle encoder from one whose batch does not return."""
    monkeypatch.setattr("service.engine.engine_thread._HEARTBEAT_S", 0.01)
    async with started() as (engine, runner):
        first = engine._thread._heartbeat
        await until(lambda: engine._thread._heartbeat > first)
        with runner.paused():
            running = asyncio.create_task(engine.encode(encoding(1)))
            await until(runner.entered.is_set)
            hung = engine._thread._heartbeat
            await until(lambda: engine.heartbeat_age_s > 0.05)
            assert engine._thread._heartbeat == hung
        await running


async def test_observer_is_told_of_each_batch() -> None:
    """The stats after each step, in order, on the loop."""
    told: list[EngineStats] = []

    class Observer:
        def on_step(self, stats: EngineStats) -> None:
            assert asyncio.get_running_loop()
            told.append(stats)

    async with started(observer=Observer(), max_batch_tokens=64) as (engine, _):
        await engine.encode(encoding(*[16] * 12))
    assert [(stats.num_steps, stats.step_sequences) for stats in told] == [(1, 4), (2, 4), (3, 4)]


def test_engine_wants_a_length_that_is_known() -> None:
    """What the folder decides must be decided before the engine is made."""
    with pytest.raises(ValueError, match="max_model_len"):
        EncoderEngine(HandRunner(), EngineConfig(), vocab_size=VOCAB_SIZE)
