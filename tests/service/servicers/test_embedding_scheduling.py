"""Embedding calls that wait, are cancelled, or run while the server stops."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from service.observability.health import ServingPhase
from tests.engine.fakes import until
from tests.service.deadlines import rejection_at_deadline
from tests.service.encoder_fakes import ENCODER, embed, running_encoder
from tests.service.fakes import rejection_of


@pytest.mark.parametrize("moment", ["waiting", "begun"])
async def test_cancelled_embedding_is_not_computed(moment: str) -> None:
    """After a cancellation before or after the first batch, no more batches run, and other calls succeed."""
    async with running_encoder({"max_batch_tokens": 64}) as run:
        with run.runner.paused():
            ahead = run.embeddings.Embed(embed("ahead")) if moment == "waiting" else None
            if ahead is not None:
                await until(run.runner.entered.is_set)
            call = run.embeddings.Embed(embed(*["left"] * 100))
            await until(lambda: run.engine.num_open == (2 if ahead is not None else 1))
            if ahead is None:
                await until(run.runner.entered.is_set)
            call.cancel()
            await until(lambda: run.engine.num_open == (1 if ahead is not None else 0))
        await run.until_idle()
        if ahead is not None:
            await ahead
        assert len(run.runner.batches) == 1
        assert await run.embeddings.Embed(embed("next"))


async def test_embed_ends_at_the_callers_deadline() -> None:
    """The call ends with DEADLINE_EXCEEDED, and its computation stops."""
    async with running_encoder({"max_batch_tokens": 64}) as run:
        with run.runner.paused():
            message = embed(*["late"] * 100)
            rejection = await rejection_at_deadline(
                lambda left_s: run.embeddings.Embed(message, timeout=left_s), run.runner.entered.is_set
            )
            await until(lambda: not run.engine.num_open)
        await run.until_idle()
        assert len(run.runner.batches) == 1
    assert rejection.code is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_embed_is_rejected_when_the_queue_is_full() -> None:
    """The call ends with RESOURCE_EXHAUSTED and a retry delay."""
    async with running_encoder({"max_queue_requests": 1}) as run:
        with run.runner.paused():
            first = run.embeddings.Embed(embed("a"))
            await until(lambda: run.engine.num_open == 1)
            rejection = await rejection_of(run.embeddings.Embed(embed("b")))
        assert await first
    assert (rejection.code, rejection.info.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "QUEUE_FULL")
    assert rejection.retry_after_s


async def test_large_embedding_request_does_not_delay_a_small_one() -> None:
    """During a request with 2,048 inputs, a request with one is answered after the next batch."""
    async with running_encoder({"max_batch_tokens": 64}) as run:
        with run.runner.paused():
            large = run.embeddings.Embed(embed(*["large"] * 2048))
            await until(run.runner.entered.is_set)
            small = run.embeddings.Embed(embed("small"))
            await until(lambda: run.engine.num_open == 2)
            run.runner.max_runs = 3
        await small
        assert len(run.runner.batches) <= 3
        run.runner.max_runs = None
        run.runner.gate.set()
        response = await large
    assert [each.index for each in response.embeddings] == list(range(2048))


async def test_server_drains_a_running_embedding() -> None:
    """During shutdown, a running call gets its vectors; one that exceeds the drain time ends with UNAVAILABLE."""
    async with running_encoder(drain_timeout_s=0.05) as run:
        with run.runner.paused():
            call = run.embeddings.Embed(embed("a"))
            await until(run.runner.entered.is_set)
            await run.server.drain()
            rejection = await rejection_of(call)
    assert (rejection.code, rejection.info.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
    async with running_encoder() as run:
        with run.runner.paused():
            call = run.embeddings.Embed(embed("a"))
            await until(run.runner.entered.is_set)
            stop = asyncio.create_task(run.server.drain())
            await until(lambda: run.server.health.phase is ServingPhase.DRAINING)
        assert len((await call).embeddings) == 1
        await stop


async def test_dead_encoder_engine_fails_its_calls() -> None:
    """Calls end with INTERNAL without internal details, and `watch` names the engine that died."""
    async with running_encoder() as run:
        watching = asyncio.create_task(run.server.watch())
        run.runner.fail_with = RuntimeError("secret words of the encoder")
        rejection = await rejection_of(run.embeddings.Embed(embed("a")))
        with pytest.raises(Exception, match=f"the engine of {ENCODER} died"):
            await watching
    assert (rejection.code, rejection.info.reason) == (grpc.StatusCode.INTERNAL, "ENGINE_FAILED")
    assert "secret" not in rejection.text
