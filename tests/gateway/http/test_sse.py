"""Comments in idle streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from sluice.v1 import chat_pb2

from gateway.dialects.seam.encoder import COMMENT
from gateway.http.sse import EventStream
from tests.gateway import fakes
from tests.gateway.conftest import Gateway, chat_body, soon


@pytest.mark.parametrize("flags", [["--keep-alive-interval-s", "0.05"]])
async def test_idle_stream_has_comments(gateway: Gateway) -> None:
    """Comments are sent during a long prefill and a long pause, and the events between them are complete."""
    prefilled, resumed = asyncio.Event(), asyncio.Event()

    async def script(request: chat_pb2.ChatRequest) -> AsyncIterator[chat_pb2.StreamChatResponse]:
        yield fakes.STARTED
        await prefilled.wait()
        yield fakes.text("a")
        await resumed.wait()
        for event in fakes.ENDING:
            yield event

    gateway.service.script = script
    kinds: list[str] = []
    async with gateway.http.stream("POST", "/v1/chat/completions", json=chat_body(stream=True)) as answer:
        async for line in answer.aiter_lines():
            kinds += [":"] if line == ": keep-alive" else [line] if line else []
            if kinds == [":"] * 3:
                prefilled.set()
            if kinds[-3:] == [":"] * 3 and '"content":"a"' in "".join(kinds):
                resumed.set()
    assert kinds[:3] == [":"] * 3
    assert kinds[-1] == "data: [DONE]"
    assert [kind for kind in kinds if kind != ":" and not kind.startswith("data: ")] == []


async def test_response_headers_are_sent_before_the_first_token(gateway: Gateway) -> None:
    """The headers are sent at admission, before any token and without a comment."""
    gateway.service.script = fakes.play([fakes.STARTED, None])
    async with gateway.http.stream("POST", "/v1/chat/completions", json=chat_body(stream=True)) as answer:
        assert answer.status_code == 200
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(answer.aiter_raw()), 0.2)


@pytest.mark.parametrize("ping", [COMMENT, b"event: ping\n\n", b""])
async def test_idle_stream_has_the_pings_of_its_dialect(ping: bytes) -> None:
    """An idle stream has the dialect's pings; for clients that fail on pings it has headers only."""
    sent: list[bytes] = []
    has_pings = asyncio.Event()

    async def send(message: object) -> None:
        assert isinstance(message, dict)
        sent.append(message.get("body", b"headers"))
        if len(sent) >= 4:
            has_pings.set()

    stream = EventStream(send, ping=ping, interval_s=0.01)
    await stream.open(b"")
    pings = asyncio.create_task(stream.keep_alive())
    if ping:
        await soon(has_pings.wait())
    else:
        await asyncio.sleep(0.1)  # many intervals, in which nothing may be sent
    pings.cancel()
    assert sent[:2] == [b"headers", b""]
    assert set(sent[2:]) == ({ping} if ping else set())
