"""Readers of long answers that resume them whenever the stream breaks, over REST and over gRPC."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc.aio
import httpx

from tests.e2e.cut_streams import SCHEMA, WORDS, CutKind, resumed

NUM_TOKENS = 280  # of an answer
PASSING = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL, grpc.StatusCode.RESOURCE_EXHAUSTED}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}


@dataclass
class StreamedAnswer:
    """A chat's SSE stream, joined."""

    names: set[tuple[str, int]] = field(default_factory=set)  # id and time
    roles: Counter[int] = field(default_factory=Counter)
    texts: dict[tuple[int, str], str] = field(default_factory=dict)
    calls: dict[tuple[int, int], list[str]] = field(default_factory=dict)
    logprobs: list[tuple[int, Any]] = field(default_factory=list)
    ends: list[tuple[int, str]] = field(default_factory=list)
    usage: list[Any] = field(default_factory=list)
    is_done: bool = False
    last_id: str = ""
    event: dict[str, str] = field(default_factory=dict)  # an incomplete event
    breaks: list[str] = field(default_factory=list)

    def take(self, line: str) -> None:
        """Add the next line; an empty line ends an event."""
        if line:
            name, _, value = line.partition(": ")
            self.event[name] = value
            return
        event, self.event = self.event, {}
        self.last_id = event.get("id", self.last_id)
        if event.get("data") == "[DONE]":
            assert not self.is_done
            self.is_done = True
        elif "data" in event:
            chunk = json.loads(event["data"])
            assert "error" not in chunk, chunk
            self.names.add((chunk["id"], chunk["created"]))
            self.usage += [chunk["usage"]] if chunk["usage"] else []
            for choice in chunk["choices"]:
                self._choose(choice["index"], choice)

    def _choose(self, index: int, choice: dict[str, Any]) -> None:
        delta = choice["delta"]
        self.roles[index] += "role" in delta
        for name in ("content", "reasoning_content"):
            self.texts[index, name] = self.texts.get((index, name), "") + (delta.get(name) or "")
        for call in delta.get("tool_calls", ()):
            parts = self.calls.setdefault((index, call["index"]), [])
            parts += [call["id"], call["function"]["name"]] if "id" in call else []
            parts.append(call["function"]["arguments"])
        self.logprobs += [(index, each) for each in (choice["logprobs"] or {}).get("content") or []]
        self.ends += [(index, choice["finish_reason"])] if choice["finish_reason"] else []

    def answer(self) -> Any:
        """Return the answer without the parts that differ between answers: its id, and its calls' ids."""
        calls = {index: (pieces[1], "".join(pieces[2:])) for index, pieces in self.calls.items()}
        logprobs = {index: [each for i, each in self.logprobs if i == index] for index, _ in self.logprobs}
        usage = [{name: count for name, count in each.items() if not name.endswith("_details")} for each in self.usage]
        return dict(self.roles), self.texts, calls, logprobs, dict(self.ends), len(self.ends), usage


def random_body(draw: random.Random) -> dict[str, Any]:
    """Return a chat with a seed, some with a tool call, logprobs or two choices, and most of them long."""
    body: dict[str, Any] = {
        "model": "sluice-demo",
        "messages": [{"role": "user", "content": " ".join(draw.choices(WORDS, k=draw.choice([3, 20, 60])))}],
        "seed": draw.randrange(2**60),
        "temperature": 1.5,
        "max_tokens": NUM_TOKENS,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if draw.random() < 0.2:
        body |= {"logprobs": True, "top_logprobs": 2}
    if draw.random() < 0.2:
        body |= {"n": 2}
    if draw.random() < 0.2:
        body |= {"tools": [TOOL], "tool_choice": "required", "ignore_eos": False}
    return body


async def read_sse(http: httpx.AsyncClient, body: dict[str, Any], stream: StreamedAnswer) -> StreamedAnswer:
    """Read a chat to its end, and resume it by the last event id whenever the connection breaks."""
    while not stream.is_done:
        headers = {"x-sluice-event-ids": "true"} | ({"last-event-id": stream.last_id} if stream.last_id else {})
        stream.event = {}
        try:
            async with http.stream("POST", "/v1/chat/completions", json=body, headers=headers) as answer:
                if answer.status_code in {502, 503}:
                    if stream.names:  # a new request may be rejected while a process is replaced
                        stream.breaks.append(f"{answer.status_code}: {await answer.aread()!r}")
                    await asyncio.sleep(0.2)
                    continue
                assert answer.status_code == 200, await answer.aread()
                async for line in answer.aiter_lines():
                    stream.take(line)
        except httpx.TransportError as error:
            stream.breaks.append(repr(error))
            await asyncio.sleep(0.1)
    return stream


async def read_grpc(kind: CutKind, channel: grpc.aio.Channel, request: Any, events: list[Any]) -> list[Any]:
    """Read a stream to its end, and resume it whenever it breaks."""
    next_request = request
    while not (events and events[-1].WhichOneof("event") in {"completed", "incomplete"}):
        try:
            async for event in kind.read(channel, next_request):
                events.append(event)  # noqa: PERF401  events before a break are kept
        except grpc.aio.AioRpcError as error:
            if error.code() not in PASSING:
                raise
            events[:] = [event for event in events if event.position]
            next_request = resumed(request, events) if events else request
            await asyncio.sleep(0.1)
    return events


class Readers:
    """Concurrent readers of the same requests, over REST and over gRPC, each started again after its end."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        channel: grpc.aio.Channel,
        bodies: Sequence[dict[str, Any]],
        calls: Sequence[tuple[CutKind, Any]],
    ) -> None:
        self.streams: list[tuple[int, StreamedAnswer]] = []  # with the index of their body
        self.lists: list[tuple[tuple[CutKind, Any], list[Any]]] = []
        self._http, self._channel = http, channel
        self._bodies, self._calls = bodies, calls
        self._tasks: dict[int, asyncio.Task[Any]] = {}  # by request

    @property
    def num_open(self) -> int:
        """The number of answers that have not ended."""
        return sum(not task.done() for task in self._tasks.values())

    async def restart(self) -> None:
        """Start all requests without an open answer, and return when every answer has begun; raise a reader's error."""
        for index, body in enumerate(self._bodies):
            if self._is_ready(index):
                self.streams.append((index, StreamedAnswer()))
                self._tasks[index] = asyncio.create_task(read_sse(self._http, body, self.streams[-1][1]))
        for number, call in enumerate(self._calls, start=len(self._bodies)):
            if self._is_ready(number):
                self.lists.append((call, []))
                reading = read_grpc(call[0], self._channel, call[1], self.lists[-1][1])
                self._tasks[number] = asyncio.create_task(reading)
        while not (all(each.names for _, each in self.streams) and all(events for _, events in self.lists)):
            self._raise_failures()
            await asyncio.sleep(0.01)

    async def until_further(self, amount: int) -> None:
        """Return when the open answers have received `amount` characters or events more, or all have ended."""
        goal = self._received() + amount
        while self._received() < goal and self.num_open:
            self._raise_failures()
            await asyncio.sleep(0.01)

    async def until_done(self) -> None:
        """Return when all answers have ended; raise the first failure."""
        await asyncio.gather(*self._tasks.values())

    def _raise_failures(self) -> None:
        for task in self._tasks.values():
            if task.done():
                task.result()

    def _is_ready(self, number: int) -> bool:
        """Return whether a request has no open answer; raise the error of its last one if that failed."""
        task = self._tasks.get(number)
        if task is None or not task.done():
            return task is None
        task.result()
        return True

    def _received(self) -> int:
        characters = sum(len(text) for _, each in self.streams for text in each.texts.values())
        return characters + sum(len(events) for _, events in self.lists)
