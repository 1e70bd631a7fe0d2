"""Streams whose service, engine or gateway is killed with SIGKILL continue without a lost or repeated byte."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc.aio
import httpx
import pytest

from tests.e2e.cut_streams import KINDS, CutKind, resumed
from tests.e2e.resume.readers import NUM_TOKENS, Readers, StreamedAnswer, random_body, read_sse
from tests.e2e.stack import GENERATOR, HOLDABLE, ROOT, Stack, child_pids, is_running
from tests.waiting import GUARD_S, wait_until

pytestmark = pytest.mark.timeout(300)
NUM_REST, NUM_GRPC, NUM_CUT = 56, 32, 200


@pytest.fixture
def killable() -> Iterator[Stack]:
    """A product of its own with capacity for all requests; killed processes are restarted, up to four times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLUICE_SERVICE_ENGINE__MAX_BATCH_SEQUENCES", "192")
        patch.setenv("SLUICE_SERVICE_ENGINE__MAX_QUEUE_WAIT_S", "1e9")  # reject nothing
        patch.setenv("SLUICE_GATEWAY_RESUME_TIMEOUT_S", str(GUARD_S))  # a service starts slowly on a busy machine
        stack = Stack(GENERATOR, environment=HOLDABLE)
    try:
        stack.wait_for("sluice is ready.")
        yield stack
    finally:
        assert stack.stop() == 0, stack.output


def processes(stack: Stack, victim: str) -> set[int]:
    """Return the process of the service, or those of its engines."""
    service = stack.children().get("service")
    if service is None:
        return set()
    return set(child_pids(service)) if victim == "engine" else {service}


async def kill_during_answers(stack: Stack, victim: str, readers: Readers, draw: random.Random) -> int:
    """Kill a process once answers have begun, and return how many it cut, when another process has replaced it."""
    await asyncio.to_thread(wait_until, lambda: processes(stack, victim))
    before = processes(stack, victim)
    num_open = 0
    while num_open < NUM_CUT / 3:  # answers that end before the kill prove nothing
        await readers.restart()
        await readers.until_further(draw.randrange(500, 4_000))
        with stack.engine_held():
            num_open = readers.num_open
            if num_open >= NUM_CUT / 3:
                os.kill(min(before), signal.SIGKILL)
    await asyncio.to_thread(until_ended, min(before))
    await asyncio.to_thread(wait_until, lambda: processes(stack, victim) - before)
    return num_open


def until_ended(pid: int) -> None:
    wait_until(lambda: not is_running(pid))


async def until_served(http: httpx.AsyncClient) -> None:
    async with asyncio.timeout(GUARD_S):
        while (await http.get("/readyz")).status_code != 200:  # noqa: ASYNC110  as a prober would
            await asyncio.sleep(0.05)


@pytest.fixture
async def http(killable: Stack) -> AsyncIterator[httpx.AsyncClient]:
    limits = httpx.Limits(max_connections=200)
    async with httpx.AsyncClient(base_url=killable.url, timeout=GUARD_S, limits=limits) as http:
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
    async with grpc.aio.insecure_channel(f"127.0.0.1:{killable.ports['envoy']}") as channel:
        whole = await asyncio.gather(*(read_sse(http, body, StreamedAnswer()) for body in bodies))
        readers = Readers(http, channel, bodies, grpc_kinds(draw))
        num_cut = 0
        for victim in ("service", "engine", "service"):
            num_cut += await kill_during_answers(killable, victim, readers, draw)
            await until_served(http)
        await readers.until_done()
        assert num_cut >= NUM_CUT
        for index, joined in readers.streams:
            assert not joined.breaks
            assert len(joined.names) == 1
            assert joined.answer() == whole[index].answer()
        for (kind, request), events in readers.lists:
            assert [event.sequence_number for event in events] == list(range(len(events)))
            again = [event async for event in kind.read(channel, resumed(request, events[:1], replay=True))]
            assert kind.whole(events, cached=False) == kind.whole(again, cached=False)
    killable.until_idle()


async def test_streams_resume_after_the_death_of_their_gateway(killable: Stack, http: httpx.AsyncClient) -> None:
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
    bodies = [random_body(draw) | {"stream": False, "n": 1, "max_tokens": 500} for _ in range(12)]
    for body in bodies:
        del body["stream_options"]

    async def ask(body: dict[str, Any]) -> Any:
        answer = await http.post("/v1/chat/completions", json=body)
        assert answer.status_code == 200, answer.text
        return [(each["index"], each["message"]["content"], each["logprobs"]) for each in answer.json()["choices"]]

    expected = await asyncio.gather(*map(ask, bodies))
    is_killed = False
    while not is_killed:  # a request that the service has not begun is rejected, and an answer that ends proves nothing
        await asyncio.to_thread(killable.until_idle)
        asking = [asyncio.create_task(ask(body)) for body in bodies]
        while (  # noqa: ASYNC110  a metric has no event
            killable.metric("sluice_engine_sequences_running") < len(bodies) and not any(task.done() for task in asking)
        ):
            await asyncio.sleep(0.01)
        with killable.engine_held():
            pid = killable.children()["service"]
            if is_killed := not any(task.done() for task in asking):
                os.kill(pid, signal.SIGKILL)
        assert await asyncio.gather(*asking) == expected
    await asyncio.to_thread(wait_until, lambda: killable.children().get("service", pid) != pid)


def documented(num: int, url: str) -> str:
    """Return an example of docs/features/streams.md, changed to a long answer with a seed."""
    page = (ROOT / "docs" / "features" / "streams.md").read_text()
    code = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)[num]
    code = code.replace("http://127.0.0.1:8080", url)
    code = code.replace('"max_tokens": 300', '"max_tokens": 1500, "ignore_eos": True, "seed": 7')
    return str(
        code.replace(
            "request.stopping.max_tokens = 300",
            "request.stopping.max_tokens = 1500; request.stopping.ignore_eos = True; request.sampling.seed = 7",
        )
    )


@pytest.mark.parametrize(("num", "victim"), [(0, "gateway"), (1, "service")])
def test_documented_clients_resume_after_the_death_of_a_process(killable: Stack, num: int, victim: str) -> None:
    """The examples of docs/features/streams.md print the same although the gateway or the service is killed."""
    command = [sys.executable, "-c", documented(num, killable.url)]
    whole = subprocess.run(command, capture_output=True, text=True, timeout=GUARD_S, check=True).stdout
    assert len(whole) > 1000
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as caller:
        assert caller.stdout is not None
        begun = caller.stdout.read(20)
        os.kill(killable.children()[victim], signal.SIGKILL)
        assert begun + caller.stdout.read() == whole
