"""The project's own Python client resumes streams whose server is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import httpx
import pytest
import sluice_client
from sluice_client.v1 import chat_pb2

from tests.e2e.stack import GENERATOR, HOLDABLE, Stack, started
from tests.waiting import GUARD_S, wait_until

QUESTION = "Tell me of France."


def open_stream(client: sluice_client.Client, seed: int) -> sluice_client.Stream[chat_pb2.StreamChatResponse]:
    """Return the stream of a long answer."""
    return client.stream_chat(QUESTION, n=4, max_tokens=800, ignore_eos=True, temperature=2, seed=seed)


def texts(events: Iterable[chat_pb2.StreamChatResponse]) -> dict[int, str]:
    """Return each choice's text. Check that the events' numbers have no gaps."""
    found: dict[int, str] = defaultdict(str)
    for number, event in enumerate(events):
        assert event.sequence_number == number
        found[event.content_delta.choice_index] += event.content_delta.text
    return found


def kill_service(stack: Stack) -> None:
    os.kill(stack.children()["service"], signal.SIGKILL)


def until_ready(stack: Stack) -> None:
    """Wait until the killed service is ready again."""
    wait_until(lambda: httpx.get(f"{stack.url}/readyz", timeout=GUARD_S).is_success, lambda: stack.output)


@pytest.fixture(scope="module")
def killable() -> Iterable[Stack]:
    """A separate product, whose service may be killed."""
    with started(GENERATOR, environment=HOLDABLE) as stack:
        yield stack


def test_streams_resume_after_a_killed_service(killable: Stack) -> None:
    """A service killed with -9 loses no character, for the synchronous and the asynchronous client."""
    target = f"127.0.0.1:{killable.ports['envoy']}"
    begun = Barrier(3)

    def in_thread() -> dict[int, str]:
        with sluice_client.Client(target, resume_timeout=GUARD_S) as client:
            stream = open_stream(client, 1)
            first = [next(stream) for _ in range(3)]
            begun.wait(GUARD_S)
            return texts([*first, *stream])

    async def on_loop() -> dict[int, str]:
        async with sluice_client.AsyncClient(target, resume_timeout=GUARD_S) as client:
            stream = client.stream_chat(QUESTION, n=4, max_tokens=800, ignore_eos=True, temperature=2, seed=2)
            events = [await anext(stream) for _ in range(3)]
            await asyncio.to_thread(begun.wait, GUARD_S)
            return texts([*events, *[event async for event in stream]])

    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(in_thread), pool.submit(lambda: asyncio.run(on_loop()))]
        begun.wait(GUARD_S)
        kill_service(killable)
        broken = [future.result(GUARD_S) for future in futures]
    with sluice_client.Client(target) as client:
        assert broken == [texts(open_stream(client, seed)) for seed in (1, 2)]
    assert len(broken[0]) == 4


def test_stream_can_be_cancelled_while_its_service_is_away(killable: Stack) -> None:
    """A cancel between two attempts to resume, when no call is open, ends the stream immediately."""
    target = f"127.0.0.1:{killable.ports['envoy']}"

    def in_thread() -> None:
        with sluice_client.Client(target) as client:
            stream = open_stream(client, 3)
            next(stream)
            kill_service(killable)
            threading.Timer(0.5, stream.cancel).start()
            list(stream)

    async def on_loop() -> None:
        async with sluice_client.AsyncClient(target) as client:
            stream = client.stream_chat(QUESTION, n=4, max_tokens=800, ignore_eos=True, temperature=2, seed=3)
            await anext(stream)
            await asyncio.to_thread(kill_service, killable)
            asyncio.get_running_loop().call_later(0.5, stream.cancel)
            [event async for event in stream]

    for read in (in_thread, lambda: asyncio.run(on_loop())):
        with pytest.raises(sluice_client.CancelledError):
            read()
        until_ready(killable)


def test_stream_with_resume_timeout_0_fails_at_a_break(killable: Stack) -> None:
    """With a resume_timeout of 0, a break raises the error of the call."""
    with sluice_client.Client(
        f"127.0.0.1:{killable.ports['envoy']}", model="sluice-demo", resume_timeout=0, wait_for_ready=True
    ) as client:
        stream = open_stream(client, 1)
        next(stream)
        with killable.engine_held():  # so that the answer cannot end before
            kill_service(killable)
        with pytest.raises(sluice_client.SluiceError) as raised:
            list(stream)
    assert isinstance(raised.value, sluice_client.ServerError | sluice_client.UnavailableError)
