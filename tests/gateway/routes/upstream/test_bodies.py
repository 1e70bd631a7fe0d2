"""Bodies that are being received: large ones need a valid key, and callers share the memory for them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from grpc import StatusCode
from sluice.v1 import model_pb2

from tests.gateway.conftest import Gateway, chat_body, running_gateway
from tests.gateway.fakes import FakeService, Status, abort, error_info, start
from tests.waiting import GUARD_S

UNCOUNTED = 64 << 10  # bytes of each body
LARGE = json.dumps(chat_body(messages=[{"role": "user", "content": "x" * 200_000}])).encode()
SMALL = json.dumps(chat_body()).encode()


@pytest.fixture
def flags() -> list[str]:
    """A memory of which one caller may use half."""
    return ["--max-incoming-bytes=400000"]


@contextlib.asynccontextmanager
async def paused(gateway: Gateway, key: str, sent: bytes, declared: int | None) -> AsyncIterator[asyncio.StreamReader]:
    """Begin a request, whose body is sent in part, and yield what the gateway sends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    length = "transfer-encoding: chunked" if declared is None else f"content-length: {declared}"
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n{length}\r\n"
    framed = sent if declared is not None else b"%x\r\n%b\r\n" % (len(sent), sent)
    writer.write(head.encode() + f"authorization: Bearer {key}\r\n\r\n".encode() + framed)
    try:
        yield reader
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def status_line(reader: asyncio.StreamReader) -> bytes:
    """Return the status line of an answer."""
    async with asyncio.timeout(GUARD_S):
        return await reader.readline()


async def chat(gateway: Gateway, key: str, body: bytes) -> int:
    """Send a complete request and return its status."""
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    return (await gateway.http.post("/v1/chat/completions", content=body, headers=headers)).status_code


async def until_answered(gateway: Gateway, status: int) -> None:
    """Return when the first caller's large requests have this status."""
    async with asyncio.timeout(GUARD_S):
        while await chat(gateway, "first", LARGE) != status:  # noqa: ASYNC110  of a gateway that reports no event
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("declared", [len(LARGE), None], ids=["length", "chunked"])
async def test_one_callers_incomplete_bodies_use_at_most_half_the_memory(
    gateway: Gateway, declared: int | None
) -> None:
    """A caller gets 429 for more than half of the memory, until it is free; small bodies and others are served."""
    part = LARGE[: UNCOUNTED + 120_000]
    async with paused(gateway, "first", part, declared):
        await until_answered(gateway, 429)  # the paused body has arrived
        async with paused(gateway, "first", part, declared) as second:
            assert await status_line(second) == b"HTTP/1.1 429 Too Many Requests\r\n"
            head = (await second.readuntil(b"\r\n\r\n")).lower()
            assert b"retry-after: 1\r\n" in head
            assert await chat(gateway, "first", LARGE) == 429
            assert await chat(gateway, "first", SMALL) == 200
            assert await chat(gateway, "other", LARGE) == 200
    await until_answered(gateway, 200)  # the closed connections are noticed


class Keyed(FakeService):
    """A service with one valid key."""

    async def ListModels(  # noqa: N802  the contract's name
        self, request: model_pb2.ListModelsRequest, context: Any
    ) -> model_pb2.ListModelsResponse:
        if dict(context.invocation_metadata()).get("authorization") != "Bearer good":
            await abort(context, Status(StatusCode.UNAUTHENTICATED, "wrong key", error_info("INVALID_KEY")))
        return await super().ListModels(request, context)


@pytest.fixture
async def keyed() -> AsyncIterator[Gateway]:
    """A gateway in front of a service with keys."""
    service = Keyed()
    server, service.port = await start(service)
    async with running_gateway(service, []) as gateway:
        yield gateway
    await server.stop(None)


@pytest.mark.parametrize("declared", [len(LARGE), None], ids=["length", "chunked"])
async def test_large_bodies_need_a_valid_key(keyed: Gateway, declared: int | None) -> None:
    """With a wrong key, a body above 64 KiB gets 401 before it is complete; with a valid one it is received."""
    async with paused(keyed, "bad", LARGE[: UNCOUNTED + 1], declared) as reader:
        assert await status_line(reader) == b"HTTP/1.1 401 Unauthorized\r\n"
    assert await chat(keyed, "good", LARGE) == 200


async def test_the_key_is_checked_before_a_declared_body_is_received(keyed: Gateway) -> None:
    """A client that announces a large body with a wrong key gets 401 before it sends any of it."""
    async with paused(keyed, "bad", b"", len(LARGE)) as reader:
        assert await status_line(reader) == b"HTTP/1.1 401 Unauthorized\r\n"


async def test_small_body_causes_no_separate_key_check(keyed: Gateway) -> None:
    """The key of a small body is checked by the service's answer only."""
    assert await chat(keyed, "good", SMALL) == 200
    assert len(keyed.service.metadata) == 1


async def test_one_callers_unsent_bodies_count_against_its_memory(gateway: Gateway) -> None:
    """A caller's large bodies count before any of their bytes arrive, each as at least a 1,024th of the memory."""
    async with contextlib.AsyncExitStack() as held:
        for _ in range(250):
            await held.enter_async_context(paused(gateway, "first", b"", len(LARGE)))
        await until_answered(gateway, 429)
        assert await chat(gateway, "first", SMALL) == 200
        assert await chat(gateway, "other", LARGE) == 200
    await until_answered(gateway, 200)


async def test_a_key_is_checked_before_a_body_in_chunks_is_received(keyed: Gateway) -> None:
    """A client that sends a body of unknown length with a wrong key gets 401 before it sends more."""
    async with paused(keyed, "bad", b"{", None) as reader:
        assert await status_line(reader) == b"HTTP/1.1 401 Unauthorized\r\n"


@pytest.mark.parametrize("declared", [10, None], ids=["length", "chunked"])
async def test_a_body_must_arrive_in_time(declared: int | None) -> None:
    """A body that is not complete in time gets 408 in the dialect's shape."""
    service = FakeService()
    server, service.port = await start(service)
    async with running_gateway(service, ["--body-timeout-s=0.2"]) as gateway:
        async with paused(gateway, "first", b"{", declared) as reader, asyncio.timeout(GUARD_S):
            head = await reader.readuntil(b"\r\n\r\n")
            (length,) = re.findall(rb"content-length: (\d+)", head)
            body = await reader.readexactly(int(length))
        assert head.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert json.loads(body)["error"]["message"] == "the body has not arrived within the limit of 0.2 s"
        while (status := await chat(gateway, "first", SMALL)) == 408:  # on a busy machine
            pass
        assert status == 200
    await server.stop(None)
