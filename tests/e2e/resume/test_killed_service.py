"""Streams whose service, engine or gateway is killed with SIGKILL continue without a lost or repeated byte."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import grpc.aio
import httpx
import pytest

from tests.e2e.cut_streams import KINDS, SCHEMA, WORDS, CutKind, resumed
from tests.e2e.stack import HOLDABLE, ROOT, Stack, child_pids, is_running
from tests.waiting import GUARD_S, wait_until

pytestmark = pytest.mark.timeout(300)
NUM_REST, NUM_GRPC, NUM_CUT = 56, 32, 200
NUM_TOKENS = 280
PASSING = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL, grpc.StatusCode.RESOURCE_EXHAUSTED}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}


@pytest.fixture
def killable() -> Iterator[Stack]:
    """A product of its own with capacity for all requests; killed processes are restarted, up to four times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLUICE_SERVICE_ENGINE__MAX_BATCH_SEQUENCES", "192")
        patch.setenv("SLUICE_SERVICE_ENGINE__MAX_QUEUE_WAIT_S", "1e9")  # reject nothing
        stack = Stack(environment=HOLDABLE)
    try:
        stack.wait_for("sluice is ready.")
        yield stack
    finally:
        assert stack.stop() == 0, stack.output


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


async def read_sse(
    http: httpx.AsyncClient, body: dict[str, Any], stream: StreamedAnswer, path: str = "/v1/chat/completions"
) -> StreamedAnswer:
    """Read a chat to its end, and resume it by the last event id whenever the connection breaks."""
    while not stream.is_done:
        headers = {"x-sluice-event-ids": "true"} | ({"last-event-id": stream.last_id} if stream.last_id else {})
        stream.event = {}
        try:
            async with http.stream("POST", "/v1/chat/completions", json=body, headers=headers) as answer:
                if answer.status_code in {502, 503}:
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
    asked = request
    while not (events and events[-1].WhichOneof("event") in {"completed", "incomplete"}):
        try:
            async for event in kind.read(channel, asked):
                events.append(event)  # noqa: PERF401  events before a break are kept
        except grpc.aio.AioRpcError as error:
            if error.code() not in PASSING:
                raise
            events[:] = [event for event in events if event.position]
            asked = resumed(request, events) if events else request
            await asyncio.sleep(0.1)
    return events


def progress(streams: Iterable[StreamedAnswer], lists: Iterable[list[Any]]) -> int:
    """Return the amount received by all streams: characters over REST, events over gRPC."""
    return sum(len(text) for each in streams for text in each.texts.values()) + sum(map(len, lists))


async def kill(stack: Stack, victim: str) -> None:
    """Kill the service, or its first engine, and return when another process has replaced it."""

    def pids() -> list[int]:
        service = stack.children().get("service")
        if service is None:
            return []
        return child_pids(service) if victim == "engine" else [service]

    await asyncio.to_thread(wait_until, pids)
    before = pids()
    os.kill(before[0], signal.SIGKILL)
    await asyncio.to_thread(until_ended, before[0])
    await asyncio.to_thread(wait_until, lambda: set(pids()) - set(before))


def until_ended(pid: int) -> None:
    wait_until(lambda: not is_running(pid))


async def until_served(http: httpx.AsyncClient) -> None:
    async with asyncio.timeout(GUARD_S):
        while (await http.get("/readyz")).status_code != 200:  # noqa: ASYNC110  as a prober would
            await asyncio.sleep(0.05)


@pytest.fixture
async def http(killable: Stack) -> AsyncIterator[httpx.AsyncClient]:
    limits = httpx.Limits(max_connections=200)
    async with httpx.AsyncClient(base_url=killable.door, timeout=GUARD_S, limits=limits) as http:
        yield http


def grpc_kinds(draw: random.Random) -> list[tuple[CutKind, Any]]:
    return [(kind, kind.ask(draw, NUM_TOKENS)) for kind in draw.choices(KINDS, k=NUM_GRPC)]


@pytest.mark.long
async def test_200_streams_survive_the_death_of_their_service(killable: Stack, http: httpx.AsyncClient) -> None:
    """The service or its engine is killed at random tokens until 200 streams were cut.

    REST clients notice nothing, and gRPC clients resume.
    """
    draw = random.Random(12)
    bodies = [random_body(draw) for _ in range(NUM_REST)]
    asked = grpc_kinds(draw)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{killable.ports['envoy']}") as channel:
        whole = await asyncio.gather(*(read_sse(http, body, StreamedAnswer()) for body in bodies))
        streams: list[StreamedAnswer] = [StreamedAnswer() for _ in bodies]
        lists: list[list[Any]] = [[] for _ in asked]
        reading = [asyncio.create_task(read_sse(http, body, each)) for body, each in zip(bodies, streams, strict=True)]
        reading += [
            asyncio.create_task(read_grpc(kind, channel, request, events))  # type: ignore[arg-type]
            for (kind, request), events in zip(asked, lists, strict=True)
        ]
        while not (all(each.names for each in streams) and all(lists)):  # noqa: ASYNC110  a reader's start has no event
            await asyncio.sleep(0.01)
        num_cut = 0
        for victim in ("service", "engine", "service", "service"):  # an answer survives at most four deaths
            if num_cut >= NUM_CUT:
                break
            goal = progress(streams, lists) + draw.randrange(500, 4_000)
            while progress(streams, lists) < goal:  # noqa: ASYNC110  a reader's progress has no event
                await asyncio.sleep(0.01)
            num_cut += sum(not task.done() for task in reading)
            await kill(killable, victim)
            await until_served(http)
        await asyncio.gather(*reading)
        assert num_cut >= NUM_CUT
        for expected, joined in zip(whole, streams, strict=True):
            assert not joined.breaks
            assert len(joined.names) == 1
            assert joined.answer() == expected.answer()
        for (kind, request), events in zip(asked, lists, strict=True):
            assert [event.sequence_number for event in events] == list(range(len(events)))
            again = [event async for event in kind.read(channel, resumed(request, events[:1], replay=True))]
            assert kind.whole(events, cached=False) == kind.whole(again, cached=False)
    killable.until_idle()


async def test_streams_survive_the_death_of_their_gateway(killable: Stack, http: httpx.AsyncClient) -> None:
    """Clients that send the last received event id continue at the restarted gateway."""
    await until_served(http)
    draw = random.Random(13)
    bodies = [random_body(draw) for _ in range(12)]
    whole = await asyncio.gather(*(read_sse(http, body, StreamedAnswer()) for body in bodies))
    streams: list[StreamedAnswer] = []
    while not any(each.breaks for each in streams):  # answers that end before the gateway does prove nothing
        await until_served(http)
        streams = [StreamedAnswer() for _ in bodies]
        reading = [asyncio.create_task(read_sse(http, body, each)) for body, each in zip(bodies, streams, strict=True)]
        while not any(each.texts for each in streams):  # noqa: ASYNC110  a reader's first token has no event
            await asyncio.sleep(0.01)
        with killable.engine_held():
            gateway = killable.children()["gateway"]
            os.kill(gateway, signal.SIGKILL)
            await asyncio.to_thread(until_ended, gateway)
        await asyncio.gather(*reading)
    for expected, joined in zip(whole, streams, strict=True):
        assert len(joined.names) == 1
        assert joined.answer() == expected.answer()


async def test_unstreamed_answers_survive_the_death_of_their_service(killable: Stack, http: httpx.AsyncClient) -> None:
    """Unstreamed requests are generated again, and the client only waits longer."""
    await until_served(http)
    draw = random.Random(14)
    bodies = [random_body(draw) | {"stream": False} for _ in range(12)]
    for body in bodies:
        del body["stream_options"]
        body["n"] = 1

    async def ask(body: dict[str, Any]) -> Any:
        answer = await http.post("/v1/chat/completions", json=body)
        assert answer.status_code == 200, answer.text
        return [(each["index"], each["message"]["content"], each["logprobs"]) for each in answer.json()["choices"]]

    expected = await asyncio.gather(*map(ask, bodies))
    num_lost = 0
    while not num_lost:  # answers that end before the service does prove nothing
        asking = [asyncio.create_task(ask(body)) for body in bodies]
        while not (  # noqa: ASYNC110  a metric has no event
            killable.metric("sluice_engine_sequences_running") or all(task.done() for task in asking)
        ):
            await asyncio.sleep(0.01)
        with killable.engine_held():
            num_lost = sum(not task.done() for task in asking)
            pid = killable.children()["service"]
            if num_lost:
                os.kill(pid, signal.SIGKILL)
        assert await asyncio.gather(*asking) == expected
    await asyncio.to_thread(wait_until, lambda: killable.children().get("service", pid) != pid)


def documented(num: int, door: str) -> str:
    """Return an example of docs/streams.md, changed to a long answer with a seed."""
    page = (ROOT / "docs" / "streams.md").read_text()
    code = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)[num]
    code = code.replace("http://127.0.0.1:8080", door)
    code = code.replace('"max_tokens": 300', '"max_tokens": 1500, "ignore_eos": True, "seed": 7')
    return str(
        code.replace(
            "request.stopping.max_tokens = 300",
            "request.stopping.max_tokens = 1500; request.stopping.ignore_eos = True; request.sampling.seed = 7",
        )
    )


@pytest.mark.parametrize(("num", "victim"), [(0, "gateway"), (1, "service")])
def test_documented_clients_survive_a_dead_process(killable: Stack, num: int, victim: str) -> None:
    """The examples of docs/streams.md print the same although the gateway or the service is killed."""
    command = [sys.executable, "-c", documented(num, killable.door)]
    whole = subprocess.run(command, capture_output=True, text=True, timeout=GUARD_S, check=True).stdout
    assert len(whole) > 1000
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as caller:
        assert caller.stdout is not None
        begun = caller.stdout.read(20)
        os.kill(killable.children()[victim], signal.SIGKILL)
        assert begun + caller.stdout.read() == whole
