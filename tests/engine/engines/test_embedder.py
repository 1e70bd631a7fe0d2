"""The encoder's client: admission, aborts and the end of the engine."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import numpy as np
import pytest

from service.engine.client.embedder import EmbedderClient
from service.generation.errors import (
    DeadlineExceeded,
    EngineClosed,
    EngineFailed,
    EngineOverloaded,
    InvalidRequest,
    PromptTooLong,
)
from service.generation.requests.embedding import EmbeddingOutput, EmbeddingRequest
from service.generation.stats import EngineStats
from tests.engine.encoder_fakes import VOCAB_SIZE, embedding, ids
from tests.engine.fakes import until
from tests.engine.scripted import Script
from tests.engine.started_engine import NEVER, Starter
from tests.engine.vectors import vector_of


def vectors_of(embedded: EmbeddingOutput) -> list[list[float]]:
    return [each.tolist() for each in embedded.vectors]


async def begun(*tasks: asyncio.Task[Any]) -> None:
    """Let tasks run until they wait."""
    for _ in range(3):
        await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)


async def test_embed_returns_vectors_in_the_order_of_inputs(start: Starter) -> None:
    """The order does not depend on the batches, and the timestamps are in order."""
    lengths = [3, 1, 16, 2, 7, 9]
    async with start.started_embedder(max_batch_tokens=16, max_batch_sequences=16) as (engine, script):
        embedded = await engine.embed(embedding(*lengths))
        assert len(script.steps()) > 1
    assert vectors_of(embedded) == [vector_of(each) for each in ids(*lengths)]
    assert embedded.arrived <= embedded.scheduled <= embedded.finished <= time.monotonic()


async def test_concurrent_requests_share_batches(start: Starter) -> None:
    """Two callers share batches and get their own vectors."""
    async with start.started_embedder() as (engine, script):
        with script.paused():
            first = asyncio.create_task(engine.embed(embedding(1)))
            await until(script.is_at_gate)
            both = [asyncio.create_task(engine.embed(embedding(2, 3, token_id=each))) for each in (7, 8)]
            await begun(*both)
            await start.settle()
        await first
        answers = [vectors_of(await each) for each in both]
        assert len(script.steps()) == 2
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
async def test_invalid_input_is_rejected_immediately(
    start_thread: Starter, inputs: Any, error: type[InvalidRequest], field: str
) -> None:
    """The error names the input, and nothing of the request is computed."""
    async with start_thread.started_embedder() as (engine, script):
        with pytest.raises(error) as caught:
            await engine.embed(EmbeddingRequest("r", inputs))
        assert caught.value.field == field
        assert vectors_of(await engine.embed(embedding(16, token_id=VOCAB_SIZE - 1)))
        assert len(script.steps()) == 1


async def test_queue_is_limited_by_requests(start: Starter) -> None:
    """A request above the limit is rejected, and queued ones are served."""
    async with start.started_embedder(max_queue_requests=2) as (engine, script):
        with script.paused():
            waiting = [asyncio.create_task(engine.embed(embedding(1))) for _ in range(2)]
            await begun(*waiting)
            with pytest.raises(EngineOverloaded, match="2 requests wait already") as caught:
                await engine.embed(embedding(1))
            assert 1 <= caught.value.retry_after_s <= 30
        await asyncio.gather(*waiting)
        assert await engine.embed(embedding(1))


async def test_key_that_fills_the_queue_leaves_others_their_share(start: Starter) -> None:
    """Requests of another key are admitted up to its share of the queue."""
    async with start.started_embedder(max_queue_requests=4) as (engine, script):
        with script.paused():
            waiting = [asyncio.create_task(engine.embed(embedding(1, caller_id="a"))) for _ in range(4)]
            await begun(*waiting)
            with pytest.raises(EngineOverloaded):
                await engine.embed(embedding(1, caller_id="a"))
            others = [asyncio.create_task(engine.embed(embedding(1, caller_id="b"))) for _ in range(2)]
            await begun(*others)
            with pytest.raises(EngineOverloaded):
                await engine.embed(embedding(1, caller_id="b"))
        await asyncio.gather(*waiting, *others)


async def test_full_queue_rejects_before_texts_are_read(start: Starter) -> None:
    """A request is rejected by its minimum number of tokens, before tokenization."""
    async with start.started_embedder(max_queue_requests=3, max_queue_tokens=100) as (engine, script):
        engine.reject_if_overloaded("a", 1.0, 1_000)
        with script.paused():
            waiting = [asyncio.create_task(engine.embed(embedding(*[10] * 4))) for _ in range(2)]
            await begun(*waiting)
            engine.reject_if_overloaded("a", 1.0, 10)
            with pytest.raises(EngineOverloaded, match="tokens of other requests"):
                engine.reject_if_overloaded("a", 1.0, 80)
            waiting.append(asyncio.create_task(engine.embed(embedding(1))))
            await begun(waiting[2])
            with pytest.raises(EngineOverloaded, match="3 requests wait already"):
                engine.reject_if_overloaded("", 1.0, 1)
        await asyncio.gather(*waiting)


async def test_queue_is_limited_by_the_tokens_before_a_request(start: Starter) -> None:
    """Behind a large request, a large one is rejected and a small one admitted, because requests take turns."""
    async with start.started_embedder(max_queue_tokens=100) as (engine, script):
        with script.paused():
            large = asyncio.create_task(engine.embed(embedding(*[10] * 20)))  # exceeds the queue, but is alone in it
            await begun(large)
            with pytest.raises(EngineOverloaded, match="60 tokens of other requests"):
                await engine.embed(embedding(*[10] * 6))
            small = asyncio.create_task(engine.embed(embedding(*[10] * 5)))
            await begun(small)
        assert len((await small).vectors) == 5
        assert len((await large).vectors) == 20


async def test_tokens_that_are_computed_leave_the_queue(start: Starter) -> None:
    """Only the tokens of a request that are not computed yet count."""
    async with start.started_embedder(max_queue_tokens=100, max_batch_tokens=64) as (engine, script):
        script.stop_after(2)
        large = asyncio.create_task(engine.embed(embedding(*[16] * 9)))  # 144 tokens, of which 128 are computed
        await until(script.is_at_gate)
        await until(lambda: engine.stats().num_steps == 2)
        other = asyncio.create_task(engine.embed(embedding(*[16] * 5)))  # 80 tokens behind 16
        await begun(other)
        script.open_gate()
        assert len((await other).vectors) == 5
        assert len((await large).vectors) == 9


async def test_request_whose_caller_left_is_not_computed(start: Starter) -> None:
    """A cancelled request ends before its first batch or between two batches, and others continue."""
    async with start.started_embedder(max_batch_tokens=64) as (engine, script):
        with script.paused():
            first = asyncio.create_task(engine.embed(embedding(*[16] * 400, token_id=1)))
            await until(script.is_at_gate)
            waiting = asyncio.create_task(engine.embed(embedding(*[16] * 400, token_id=2)))
            await begun(first, waiting)
            first.cancel()
            waiting.cancel()
            await asyncio.gather(first, waiting, return_exceptions=True)
            await start.settle()
        assert vectors_of(await engine.embed(embedding(1, token_id=3))) == [vector_of([3])]
        assert engine.stats().num_waiting == 0
        assert [batch[0][0] for batch in script.steps()] == [1, 3]


async def is_late_within(engine: EmbedderClient, script: Script, left_s: float) -> bool:
    """Let the deadline of a request pass, and return whether its first batch had begun; if not, it proves nothing."""
    with script.paused():
        deadline = time.monotonic() + left_s
        large = asyncio.create_task(engine.embed(embedding(*[16] * 9, deadline=deadline)))
        await until(lambda: script.is_at_gate() or large.done())
        await until(lambda: time.monotonic() > deadline)
    with pytest.raises(DeadlineExceeded):
        await large
    return script.is_at_gate()


@pytest.mark.parametrize("moment", ["before", "within"])
async def test_request_ends_at_its_deadline(start: Starter, moment: str) -> None:
    """A request ends with DeadlineExceeded immediately or at the next batch, and is not computed further."""
    async with start.started_embedder(max_batch_tokens=64) as (engine, script):
        if moment == "before":
            with pytest.raises(DeadlineExceeded):
                await engine.embed(embedding(1, deadline=time.monotonic()))
        else:
            left_s = 0.05
            while not await is_late_within(engine, script, left_s):
                left_s *= 2
        assert engine.stats().num_waiting == 0
        assert len(script.steps()) == (moment == "within")


async def test_drain_lets_running_requests_complete(start: Starter) -> None:
    """During a drain, new requests are rejected and open ones complete."""
    async with start.started_embedder() as (engine, script):
        with script.paused():
            running = asyncio.create_task(engine.embed(embedding(1)))
            await until(script.is_at_gate)
            draining = asyncio.create_task(engine.drain(60))
            await begun(draining)
            with pytest.raises(EngineClosed):
                await engine.embed(embedding(1))
            assert not draining.done()
        assert vectors_of(await running) == [vector_of([1])]
        await draining


async def test_drain_ends_requests_that_do_not_complete_in_time(start: Starter) -> None:
    """After the timeout a request ends with EngineClosed, and no further batch of it is computed."""
    async with start.started_embedder(max_batch_tokens=64) as (engine, script):
        with script.paused():
            running = asyncio.create_task(engine.embed(embedding(*[16] * 100)))
            await until(script.is_at_gate)
            await engine.drain(0)
            with pytest.raises(EngineClosed):
                await running
            await start.settle()
        await until(lambda: engine.stats().num_steps == 1 and engine.stats().num_waiting == 0)
        await engine.check()
        assert len(script.steps()) == 1


@pytest.mark.slow
async def test_embedder_closes_before_its_start_and_twice(start: Starter) -> None:
    """An engine can be closed before its start, and more than once."""
    engine, _ = start.embedder()
    await engine.close()
    engine, _ = start.embedder()
    engine.start()
    await engine.embed(embedding(1))
    await engine.close()
    await engine.close()


async def test_runner_that_fails_ends_all_requests(start: Starter) -> None:
    """All requests, including later ones, end with EngineFailed, and `failed` has the reason."""
    async with start.started_embedder(link={"restarts": NEVER}) as (engine, script):
        with script.paused():
            running = [asyncio.create_task(engine.embed(embedding(1))) for _ in range(2)]
            await until(script.is_at_gate)
            script.fail("no memory")
        for each in running:
            with pytest.raises(EngineFailed) as caught:
                await each
            assert "no memory" in str(caught.value.__cause__)
        assert "no memory" in str(await engine.failed)
        with pytest.raises(EngineFailed):
            await engine.embed(embedding(1))


async def test_observer_is_called_after_each_batch(start: Starter) -> None:
    """The observer gets the stats after each step, in order, on the loop."""
    observed: list[EngineStats] = []

    class Observer:
        def on_step(self, stats: EngineStats) -> None:
            assert asyncio.get_running_loop()
            observed.append(stats)

    async with start.started_embedder(observer=Observer(), max_batch_tokens=64) as (engine, _):
        await engine.embed(embedding(*[16] * 12))
    assert [(stats.num_steps, stats.step_sequences) for stats in observed] == [(1, 4), (2, 4), (3, 4)]


def test_embedder_requires_a_maximum_length(start_thread: Starter) -> None:
    """The model's maximum length must be known before the client is created."""
    with pytest.raises(ValueError, match="max_model_len"):
        start_thread.embedder(max_model_len=None)
