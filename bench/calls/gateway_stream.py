"""Measure the gateway's CPU time per streamed message in addition to reading it from gRPC.

The service's stream is replaced by a replay of the same messages, which yields to the event loop between messages as a
read from gRPC does. A client in a process of its own reads raw bytes. This thread's CPU time per message is compared
between the replay alone and the replay through the whole gateway (endpoint, encoder, SSE, HTTP server, socket). Each
figure is the minimum of several rounds, since other work on the machine only adds time.
Run: .venv/bin/python -m bench.calls.gateway_stream
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import uvloop
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from sluice.v1 import chat_pb2

from gateway.server.app import build_app
from gateway.server.http_server import build_server
from gateway.settings.config import Settings
from gateway.telemetry.telemetry import Telemetry
from gateway.upstream.caller import Caller
from gateway.upstream.client import ServiceClient
from process.settings.process_settings import read_settings

LIMIT_US = 15.0  # of the gateway's own work, per message
STARTED = chat_pb2.ChatStarted(id="1", created=Timestamp(seconds=1), model="m", system_fingerprint="fp")
DELTA = chat_pb2.StreamChatResponse(content_delta=chat_pb2.ContentDelta(text=" token")).SerializeToString()


class Replay(ServiceClient):
    """A client of a service that has all `max_tokens` deltas ready."""

    @contextlib.asynccontextmanager
    async def stream(
        self,
        request: Message,
        caller: Caller,  # noqa: ARG002  the client's signature
        affinity: str = "",  # noqa: ARG002  the client's signature
        *,
        spent_s: float = 0.0,  # noqa: ARG002  the client's signature
    ) -> AsyncIterator[AsyncIterator[Message]]:
        assert isinstance(request, chat_pb2.ChatRequest)  # noqa: S101  the reader asks for nothing else
        yield replay(request.stopping.max_tokens)


async def replay(num_messages: int) -> AsyncIterator[chat_pb2.StreamChatResponse]:
    """Yield the events of one answer, each parsed from its bytes after an iteration of the loop."""
    yield chat_pb2.StreamChatResponse(started=STARTED)
    for _ in range(num_messages):
        await asyncio.sleep(0)
        yield chat_pb2.StreamChatResponse.FromString(DELTA)
    yield chat_pb2.StreamChatResponse(completed=chat_pb2.ChatCompleted())


def read(port: int, num_messages: int) -> None:
    """Read one streamed answer as bytes."""
    message = {"role": "user", "content": "x"}
    body = json.dumps({"model": "m", "messages": [message], "max_tokens": num_messages, "stream": True}).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n"
    )
    tail = b""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(head.format(len(body)).encode() + body)
        while b"[DONE]" not in tail:
            piece = connection.recv(1 << 20)
            if not piece:
                raise ConnectionError("the stream ended too early")
            tail = (tail + piece)[-100:]


async def cost_us(work: Callable[[], Awaitable[object]], num_messages: int) -> float:
    """Return this thread's CPU time while `work` runs, in µs per message."""
    began = time.thread_time()
    await work()
    return (time.thread_time() - began) / num_messages * 1e6


async def measure(num_messages: int, num_rounds: int) -> None:
    """Print the minimum cost of both, and the difference."""
    settings = read_settings(Settings, [])
    telemetry = Telemetry(None)

    async def alone() -> None:
        async for _ in replay(num_messages):
            pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        async def through() -> None:
            reader = multiprocessing.get_context("spawn").Process(target=read, args=(port, num_messages))
            reader.start()
            await asyncio.to_thread(reader.join)
            if reader.exitcode != 0:
                raise RuntimeError("the reader failed")

        async with Replay.connect(settings, telemetry) as client:
            server = build_server(settings, build_app(settings, client, telemetry))
            serving = asyncio.create_task(server.serve([listener]))
            rounds = [
                (await cost_us(alone, num_messages), await cost_us(through, num_messages)) for _ in range(num_rounds)
            ]
            server.should_exit = True
            await serving
    telemetry.shutdown()
    alone_us, through_us = (min(costs) for costs in zip(*rounds, strict=True))
    print(f"replay alone {alone_us:.1f} µs, through the gateway {through_us:.1f} µs per message")
    print(f"the gateway's own cost: {through_us - alone_us:.1f} µs per streamed message (limit {LIMIT_US:.0f} µs)")


def main() -> None:
    """Measure, with flags for the sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(measure(arguments.messages, arguments.rounds))


if __name__ == "__main__":
    main()
