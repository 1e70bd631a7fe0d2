"""Large requests that are being received: each caller may use as many as stay free for others."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import grpc
import pytest
from grpc import aio

from tests.service.auth.key_files import write
from tests.service.chat_events import kinds_of, text_of
from tests.service.fakes import Running, rejection_of, request, running
from tests.waiting import GUARD_S

CHAT = "/sluice.v1.ChatService/Chat"
STREAM, HEALTH = "/sluice.v1.ChatService/StreamChat", "/grpc.health.v1.Health/Check"

Metadata: TypeAlias = tuple[tuple[str, str], ...]


def marked(address: str, key: str | None = None) -> Metadata:
    """Return the metadata of a call that Envoy marks as large."""
    return (("x-sluice-upload", address), *((("authorization", f"Bearer {key}"),) if key else ()))


def paused(run: Running, metadata: Metadata) -> Any:
    """Begin a call without its message."""
    return run.channel.stream_stream(CHAT)(metadata=metadata)


async def is_answered(run: Running, metadata: Metadata) -> bool:
    """Return True if a complete call is answered, False if too many uploads of its caller are incomplete."""
    try:
        return bool((await run.chat.Chat(request(), metadata=metadata, timeout=GUARD_S)).choices)
    except aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
            raise
        return False


async def until_answered(run: Running, metadata: Metadata) -> None:
    """Return when a complete call is answered."""
    async with asyncio.timeout(GUARD_S):
        while not await is_answered(run, metadata):  # noqa: ASYNC110  the service reports no event
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def full(run: Running, callers: Sequence[Metadata], checked: Metadata) -> AsyncIterator[None]:
    """Hold a paused call of each caller for the block, which begins when a complete call of `checked` is rejected.

    A complete call that arrives before one of them takes its slot for a moment; a call that was rejected meanwhile is
    begun again.
    """
    calls = [paused(run, caller) for caller in callers]
    try:
        async with asyncio.timeout(GUARD_S):
            while await is_answered(run, checked):
                calls = [
                    paused(run, caller) if call.done() else call for caller, call in zip(callers, calls, strict=True)
                ]
                await asyncio.sleep(0.01)
        yield
    finally:
        for call in calls:
            call.cancel()


async def test_one_keys_uploads_use_at_most_half_of_the_slots(tmp_path: Path) -> None:
    """Of 8, a key may use 4 at once, whatever addresses it calls from; the next is rejected before its message."""
    path = tmp_path / "keys.yaml"
    keys = write(path, first={}, other={})
    first = marked("10.0.0.9", keys["first"])
    callers = [marked(f"10.0.0.{number}", keys["first"]) for number in range(4)]
    async with running(auth={"keys_file": path}, max_uploads=8) as run:
        async with full(run, callers, first):
            assert await paused(run, first).code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            rejection = await rejection_of(run.chat.Chat(request(), metadata=first))
            assert (rejection.info.reason, rejection.info.metadata["limit"]) == ("CONCURRENCY_LIMITED", "4")
            assert await is_answered(run, marked("10.0.0.1", keys["other"]))
            assert await is_answered(run, (("authorization", f"Bearer {keys['first']}"),))  # not large
        await until_answered(run, first)


async def test_callers_without_a_key_are_distinguished_by_address() -> None:
    """Without keys, the uploads of one address leave some for others."""
    one = marked("10.0.0.1")
    async with running(max_uploads=4) as run, full(run, [one, one], one):
        assert await is_answered(run, marked("10.0.0.2"))


async def test_large_requests_are_answered_like_others() -> None:
    """A marked call has the same messages and errors as another one, whole and streamed."""
    async with running() as run:
        seen = []
        for metadata in (marked("10.0.0.1"), ()):
            whole = await run.chat.Chat(request(), metadata=metadata)
            streamed = [event async for event in run.chat.StreamChat(request(), metadata=metadata)]
            absent = await rejection_of(run.chat.Chat(request(model="absent"), metadata=metadata))
            broken: Any = run.channel.unary_unary(CHAT)
            code = await broken(b"\xff", metadata=metadata).code()
            seen.append((whole.choices, kinds_of(streamed), text_of(streamed), absent.code, code))
        assert seen[0] == seen[1]
        assert seen[0][3:] == (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT)


@pytest.mark.parametrize("path", [CHAT, STREAM, HEALTH, "/grpc.health.v1.Health/Watch"])
async def test_call_without_a_message_is_rejected(path: str) -> None:
    """A call that ends before its message ends with INVALID_ARGUMENT, where gRPC itself would never end it."""
    async with running() as run:
        call: Any = run.channel.stream_unary(path)(timeout=GUARD_S)
        await call.done_writing()
        assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "before its message was complete" in await call.details()
