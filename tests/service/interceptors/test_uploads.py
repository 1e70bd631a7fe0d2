"""Large requests that are being received: each caller may use as many as stay free for others."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from tests.service.auth.key_files import write
from tests.service.chat_events import kinds_of, text_of
from tests.service.fakes import Running, rejection_of, request, running
from tests.waiting import GUARD_S

CHAT = "/sluice.v1.ChatService/Chat"
STREAM, HEALTH = "/sluice.v1.ChatService/StreamChat", "/grpc.health.v1.Health/Check"


def marked(address: str, key: str | None = None) -> tuple[tuple[str, str], ...]:
    """Return the metadata of a call that Envoy marks as large."""
    return (("x-sluice-upload", address), *((("authorization", f"Bearer {key}"),) if key else ()))


@contextlib.asynccontextmanager
async def paused(run: Running, metadata: tuple[tuple[str, str], ...]) -> AsyncIterator[Any]:
    """Begin a call without its message."""
    call: Any = run.channel.stream_stream(CHAT)(metadata=metadata)
    try:
        yield call
    finally:
        call.cancel()


async def is_answered(run: Running, metadata: tuple[tuple[str, str], ...]) -> bool:
    """Return True if a complete call is answered, False if too many uploads of its caller are incomplete."""
    try:
        return bool((await run.chat.Chat(request(), metadata=metadata, timeout=GUARD_S)).choices)
    except aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
            raise
        return False


async def until_answered(run: Running, metadata: tuple[tuple[str, str], ...], *, answered: bool = True) -> None:
    """Return when a complete call is answered, or rejected."""
    async with asyncio.timeout(GUARD_S):
        while await is_answered(run, metadata) != answered:  # noqa: ASYNC110  the service reports no event
            await asyncio.sleep(0.01)


async def test_one_keys_uploads_use_at_most_half_of_the_slots(tmp_path: Path) -> None:
    """Of 8, a key may use 4 at once, whatever addresses it calls from; the next is rejected before its message."""
    path = tmp_path / "keys.yaml"
    keys = write(path, first={}, other={})
    first = marked("10.0.0.9", keys["first"])
    async with running(auth={"keys_file": path}, max_uploads=8) as run, contextlib.AsyncExitStack() as held:
        for number in range(4):
            await held.enter_async_context(paused(run, marked(f"10.0.0.{number}", keys["first"])))
        await until_answered(run, first, answered=False)  # the paused calls have arrived
        async with paused(run, first) as fifth:
            assert await fifth.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        rejection = await rejection_of(run.chat.Chat(request(), metadata=first))
        assert (rejection.info.reason, rejection.info.metadata["limit"]) == ("CONCURRENCY_LIMITED", "4")
        assert await is_answered(run, marked("10.0.0.1", keys["other"]))
        assert await is_answered(run, (("authorization", f"Bearer {keys['first']}"),))  # not large
        await held.aclose()
        await until_answered(run, first)


async def test_callers_without_a_key_are_distinguished_by_address() -> None:
    """Without keys, the uploads of one address leave some for others."""
    async with running(max_uploads=4) as run, paused(run, marked("10.0.0.1")), paused(run, marked("10.0.0.1")):
        await until_answered(run, marked("10.0.0.1"), answered=False)
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
