"""Engine: a reader who leaves, however and whenever, leaves nothing behind."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

import pytest

from tests.engine.fakes import read, request, until
from tests.engine.started_engine import ENDLESS, generate, is_idle, started


@pytest.mark.parametrize("num_outputs", [0, 1, 3])
@pytest.mark.parametrize("n", [1, 2])
async def test_engine_frees_everything_when_the_reader_leaves(num_outputs: int, n: int) -> None:
    """Leaving before the first token, after it or later ends the request with the step in progress, if there is one."""
    async with started(**ENDLESS) as (engine, runner):
        async with engine.generate(request("hello", n=n, max_tokens=None, ignore_eos=True)) as stream:
            for _ in range(num_outputs):
                await anext(stream)
            runner.gate = threading.Event()
            await until(runner.at_gate.is_set)
            num_generated_tokens = engine.stats().num_generated_tokens
        runner.gate.set()
        await until(lambda: is_idle(engine))
        assert engine.stats().num_generated_tokens <= num_generated_tokens + n
        assert await read(stream) == []


async def test_engine_frees_everything_when_the_reader_is_cancelled() -> None:
    """A reader's task that is cancelled leaves its stream, and so ends its request."""
    async with started(**ENDLESS) as (engine, _):
        reading = asyncio.create_task(generate(engine, request(max_tokens=None, ignore_eos=True)))
        await until(lambda: engine.stats().num_generated_tokens > 1)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await until(lambda: is_idle(engine))


async def test_engine_frees_everything_when_the_reader_raises() -> None:
    """An error of the reader's own passes through, and its request ends."""
    async with started(**ENDLESS) as (engine, _):
        with suppress(KeyError):
            async with engine.generate(request(max_tokens=None, ignore_eos=True)) as stream:
                await anext(stream)
                raise KeyError
            pytest.fail("the reader's error was swallowed")
        await until(lambda: is_idle(engine))


async def test_engine_forgets_a_request_that_left_before_it_was_run() -> None:
    """A request whose reader left while it waited is never run."""
    async with started() as (engine, runner):
        runner.gate = threading.Event()
        async with engine.generate(request("first", max_tokens=1)) as first:
            await until(runner.at_gate.is_set)
            async with engine.generate(request("second")):
                pass
            runner.gate.set()
            await read(first)
        await until(lambda: is_idle(engine))
        assert {serial for step in runner.steps for serial, _ in step} == {0}


async def test_engine_frees_a_place_in_the_queue_when_a_waiting_reader_leaves() -> None:
    """Who leaves no longer counts."""
    async with started(max_queue_requests=1) as (engine, _):
        for _ in range(5):
            async with engine.generate(request()):
                pass
