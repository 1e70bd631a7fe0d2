"""A reader that leaves, in any way and at any time, leaves nothing behind."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from tests.engine.fakes import read, request, until
from tests.engine.started_engine import ENDLESS, Starter, generate, is_idle


@pytest.mark.slow
@pytest.mark.parametrize("num_outputs", [0, 1, 3])
@pytest.mark.parametrize("n", [1, 2])
async def test_engine_frees_everything_when_the_reader_leaves(start: Starter, num_outputs: int, n: int) -> None:
    """A request ends with the step in progress when its reader leaves, before or after the first token."""
    async with start.started(**ENDLESS) as (engine, script):
        async with engine.generate(request("hello", n=n, max_tokens=None, ignore_eos=True)) as stream:
            for _ in range(num_outputs):
                await anext(stream)
            script.close_gate()
            await until(script.is_at_gate)
            num_steps = len(script.steps())
        await start.settle()
        script.open_gate()
        await until(lambda: is_idle(engine))
        assert len(script.steps()) <= num_steps + 1
        assert await read(stream) == []


async def test_engine_frees_everything_when_the_reader_is_cancelled(start: Starter) -> None:
    """Cancelling the reader's task ends its request."""
    async with start.started(**ENDLESS) as (engine, _):
        reading = asyncio.create_task(generate(engine, request(max_tokens=None, ignore_eos=True)))
        await until(lambda: engine.stats().num_generated_tokens > 1)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await until(lambda: is_idle(engine))


async def test_engine_frees_everything_when_the_reader_raises(start: Starter) -> None:
    """An exception of the reader is raised, and its request ends."""
    async with start.started(**ENDLESS) as (engine, _):
        with suppress(KeyError):
            async with engine.generate(request(max_tokens=None, ignore_eos=True)) as stream:
                await anext(stream)
                raise KeyError
            pytest.fail("the reader's error was swallowed")
        await until(lambda: is_idle(engine))


async def test_engine_drops_a_queued_request_when_its_reader_leaves(start: Starter) -> None:
    """A queued request of a reader that has left is never run."""
    async with start.started() as (engine, script):
        script.close_gate()
        async with engine.generate(request("first", max_tokens=1)) as first:
            await until(script.is_at_gate)
            async with engine.generate(request("second")):
                pass
            await start.settle()
            script.open_gate()
            await read(first)
        await until(lambda: is_idle(engine))
        assert {serial for step in script.steps() for serial in step} == {0}


async def test_engine_frees_queue_capacity_when_a_waiting_reader_leaves(start: Starter) -> None:
    """A request of a reader that has left does not count against the limit."""
    async with start.started(max_queue_requests=1) as (engine, _):
        for _ in range(5):
            async with engine.generate(request()):
                pass
