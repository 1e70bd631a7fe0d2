"""When the drain time ends, each caller that still waits gets an error in its protocol's form."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import grpc
import httpx
import pytest
from grpc import aio
from sluice.v1 import chat_pb2_grpc

from tests.e2e.faults.test_run import chat_request
from tests.e2e.stack import HOLDABLE, Stack, suspend
from tests.waiting import GUARD_S, wait_until

LONG: dict[str, Any] = {"max_tokens": 1900, "ignore_eos": True}
CHAT = {"model": "demo", "messages": [{"role": "user", "content": "hi"}]}
REASON = "the server is shutting down"


@dataclass
class Outcome:
    """What a caller got: its status, and the last complete event or the whole body."""

    status: int
    text: str


async def read(client: httpx.AsyncClient, path: str, body: dict[str, Any], begun: asyncio.Event) -> Outcome:
    """Send a request and read its answer to the end. A connection that is cut raises."""
    async with client.stream("POST", path, json=body) as answer:
        begun.set()
        lines = [line async for line in answer.aiter_lines()]
    return Outcome(answer.status_code, "\n".join(lines))


BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "openai": ("/v1/chat/completions", CHAT | LONG),
    "completions": ("/v1/completions", {"model": "demo", "prompt": "hi", **LONG}),
    "anthropic": ("/v1/messages", CHAT | LONG),
    "databricks": ("/serving-endpoints/demo/invocations", {"messages": CHAT["messages"], **LONG}),
}


@pytest.fixture
async def stack() -> AsyncIterator[Stack]:
    stack = Stack("--model=demo=demo/model", "--drain-timeout-s=1", environment=HOLDABLE)
    try:
        await asyncio.to_thread(stack.wait_for, "sluice is ready.")
        yield stack
    finally:
        await asyncio.to_thread(stack.stop)


@pytest.mark.timeout(300)
async def test_each_caller_gets_an_error_when_the_drain_time_ends(stack: Stack) -> None:
    """No connection is cut: streams get a terminal error event, whole answers 503, and gRPC calls UNAVAILABLE."""
    (worker,) = stack.workers()
    async with (
        httpx.AsyncClient(base_url=stack.url, timeout=GUARD_S) as client,
        aio.insecure_channel(stack.url.removeprefix("http://")) as channel,
    ):
        stub: Any = chat_pb2_grpc.ChatServiceStub(channel)
        slowed = asyncio.create_task(slow_down(worker))
        begun = {name: asyncio.Event() for name in BODIES}
        streams = {
            name: asyncio.create_task(read(client, path, body | {"stream": True}, begun[name]))
            for name, (path, body) in BODIES.items()
        }
        wholes = {
            name: asyncio.create_task(read(client, path, body | {"stream": False}, asyncio.Event()))
            for name, (path, body) in BODIES.items()
        }
        stream = stub.StreamChat(chat_request("demo", max_tokens=1900), timeout=GUARD_S)
        call = stub.Chat(chat_request("demo", max_tokens=1900), timeout=GUARD_S)
        await stream.read()
        for event in begun.values():
            await asyncio.wait_for(event.wait(), GUARD_S)
        await asyncio.to_thread(wait_until, lambda: num_open(stack) == 2 * len(BODIES) + 2)
        slowed.cancel()
        suspend(worker)  # no answer ends by itself
        stack.process.send_signal(signal.SIGINT)
        ended = {name: await task for name, task in streams.items()}
        rejected = {name: await task for name, task in wholes.items()}
        for each in (drained(stream), call):
            with pytest.raises(aio.AioRpcError) as caught:
                await each
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE, caught.value
        os.kill(worker, signal.SIGCONT)
        code = await asyncio.to_thread(stack.wait)
    for name, outcome in ended.items():
        assert outcome.status == 200, name
        assert REASON in outcome.text[-1000:], (name, outcome.text[-1000:])
    for name, outcome in rejected.items():
        assert outcome.status == 503, (name, outcome)
        assert REASON in str(json.loads(outcome.text)), name
    assert code == 0, stack.output
    assert "Traceback" not in stack.output


async def slow_down(worker: int) -> None:
    """Let an engine compute for a moment at a time, so that no answer ends before the last one has begun."""
    while True:
        await asyncio.to_thread(suspend, worker)
        await asyncio.sleep(0.1)
        os.kill(worker, signal.SIGCONT)
        await asyncio.sleep(0.01)


def num_open(stack: Stack) -> float:
    """Return the number of running and queued sequences."""
    return sum(stack.metric(f"sluice_engine_{name}") for name in ("sequences_running", "queue_depth"))


async def drained(stream: Any) -> None:
    """Read a stream to its end."""
    while await stream.read() is not aio.EOF:
        pass
    raise AssertionError("the stream has ended without an error")
