"""Large bodies are parsed and serialised while the event loop serves other requests."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from google.protobuf.message import Message
from sluice.v1 import chat_pb2

from gateway.dialects.openai.error import OpenAIErrors
from gateway.dialects.seam.failure import Failure
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.translator import ParsedRequest
from gateway.routes.handling.generation_endpoint import GenerationEndpoint
from gateway.routes.upstream.bodies import BodyReader
from gateway.settings.config import Settings
from gateway.upstream.caller import Caller
from tests.waiting import GUARD_S

TEXT = "x" * 100_000


async def valid(_: Caller) -> None:
    """Accept every credential."""


class Gate:
    """Work that continues only after the event loop has run something else."""

    def __init__(self) -> None:
        self._open = threading.Event()

    def wait(self) -> None:
        assert self._open.wait(GUARD_S), "the loop did nothing while this waited"

    async def open_from_the_loop(self) -> None:
        await asyncio.sleep(0)
        self._open.set()


class Waiting(OpenAIErrors):
    """A dialect whose method `waits_in` ends only while the event loop runs."""

    ping = b""

    def __init__(self, gate: Gate, waits_in: str, *, stream: bool) -> None:
        self._gate, self._waits_in, self._stream = gate, waits_in, stream

    def parse(self, arrival: HttpRequest) -> ParsedRequest[Any]:
        self._work("parse")
        return ParsedRequest(chat_pb2.ChatRequest(), self._stream, self, str)

    def whole(self, response: Message) -> bytes:
        self._work("whole")
        return b"{}"

    def chunk(self, event: Message) -> bytes:
        self._work("chunk")
        return b"data: x\n\n"

    def error(self, failure: Failure) -> bytes:
        return failure.message.encode()

    def _work(self, name: str) -> None:
        if name == self._waits_in:
            self._gate.wait()


class Service:
    """Answers with a large message."""

    async def call(self, request: Message, caller: Caller, affinity: str = "") -> Any:
        response = chat_pb2.ChatResponse()
        response.choices.add().message.content.add(text=TEXT)
        return response

    @contextlib.asynccontextmanager
    async def stream(
        self,
        request: Message,
        caller: Caller,
        affinity: str = "",
    ) -> AsyncIterator[AsyncIterator[Message]]:
        async def events() -> AsyncIterator[Message]:
            yield chat_pb2.StreamChatResponse(content_delta={"text": TEXT})
            yield chat_pb2.StreamChatResponse(completed={})

        yield events()


@pytest.mark.parametrize(("waits_in", "stream"), [("parse", False), ("whole", False), ("chunk", True)])
async def test_event_loop_runs_while_a_large_body_is_processed(waits_in: str, stream: bool) -> None:  # noqa: FBT001
    gate = Gate()
    translator = partial(Waiting, gate, waits_in, stream=stream)
    endpoint = GenerationEndpoint(translator, Service(), BodyReader(valid, Settings()), Settings())
    body = iter([{"type": "http.request", "body": TEXT.encode()}])
    sent: list[Any] = []

    async def receive() -> Any:
        if (message := next(body, None)) is None:
            await asyncio.Event().wait()
        return message

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json")]
    scope = {"type": "http", "headers": headers, "state": {"request_id": "r"}, "path_params": {}, "query_string": b""}
    await asyncio.gather(endpoint(scope, receive, send), gate.open_from_the_loop())
    assert sent[0]["status"] == 200
    assert not sent[-1].get("more_body")
