"""Who is let in: requests that are expected to begin in time. The others are told at once when to come back."""

from __future__ import annotations

import asyncio
import math
from contextlib import AsyncExitStack

import pytest

from service.engine.client.generator import GeneratorClient
from service.generation.errors import EngineOverloaded
from service.generation.request import GenerationRequest
from tests.engine.fakes import Clock, read, request, until
from tests.engine.started_engine import ENDLESS, Starter

SLOW_S = 10.0  # that a sequence has run


def endless(caller_id: str = "", **fields: object) -> GenerationRequest:
    return request("hello", max_tokens=None, ignore_eos=True, caller_id=caller_id, **fields)  # type: ignore[arg-type]


async def fill(engine: GeneratorClient, clock: Clock, stack: AsyncExitStack, caller_id: str = "") -> None:
    """Take both places with answers that have run for ten seconds."""
    for _ in range(2):
        outputs = await stack.enter_async_context(engine.generate(endless(caller_id)))
        await outputs.begun()
    clock.now += SLOW_S


async def test_a_request_that_would_wait_too_long_is_refused_at_the_door(start_thread: Starter) -> None:
    """Two places for ten seconds each: the next begins in about 5 s, the limit is 2 s, so come back in 3 s."""
    clock = Clock()
    sizes = {**ENDLESS, "max_batch_sequences": 2, "max_queue_wait_s": 2.0}
    async with start_thread.started("x", ends=False, clock=clock, **sizes) as (engine, _), AsyncExitStack() as stack:
        await fill(engine, clock, stack)
        with pytest.raises(
            EngineOverloaded, match=r"would wait for about 5\.0 s to begin; the limit is 2\.0 s"
        ) as refused:
            await stack.enter_async_context(engine.generate(endless()))
        assert refused.value.retry_after_s == pytest.approx(3.0)
        assert refused.value.for_all
        with pytest.raises(EngineOverloaded):
            engine.reject_if_overloaded("", 1.0)
        engine.reject_if_overloaded("another key", 1.0)


async def test_a_deadline_bounds_the_wait_too(start_thread: Starter) -> None:
    """With room for waits of 30 s, a request that has 8 s in all must begin within 4 s; one that has 12 s is let in."""
    clock = Clock()
    sizes = {**ENDLESS, "max_batch_sequences": 2, "max_queue_wait_s": 30.0}
    async with start_thread.started("x", ends=False, clock=clock, **sizes) as (engine, _), AsyncExitStack() as stack:
        await fill(engine, clock, stack)
        with pytest.raises(EngineOverloaded, match=r"the limit is 4\.0 s"):
            engine.reject_if_overloaded("", 1.0, clock.now + 8)
        engine.reject_if_overloaded("", 1.0, clock.now + 12)


async def test_once_one_is_refused_the_line_is_kept_short_until_none_was_for_two_seconds(start_thread: Starter) -> None:
    """Four may wait for two places of ten seconds; the fifth is refused, and so is the next, though one has left."""
    clock = Clock()
    sizes = {**ENDLESS, "max_batch_sequences": 2, "max_queue_wait_s": 20.0}
    async with start_thread.started("x", ends=False, clock=clock, **sizes) as (engine, _), AsyncExitStack() as stack:
        await fill(engine, clock, stack)
        for _ in range(3):
            await stack.enter_async_context(engine.generate(endless()))
        async with engine.generate(endless()):
            with pytest.raises(EngineOverloaded, match=r"the limit is 20\.0 s"):
                engine.reject_if_overloaded("", 1.0)
        with pytest.raises(EngineOverloaded, match=r"the limit is 0\.1 s"):
            engine.reject_if_overloaded("", 1.0)
        engine.reject_if_overloaded("another key", 1.0)
        clock.now += 2.0
        await stack.enter_async_context(engine.generate(endless()))


async def test_a_crowd_shortens_the_line_for_those_who_make_it(start_thread: Starter) -> None:
    """A key that has less than half of what the largest has open may wait as long as is set."""
    clock = Clock()
    sizes = {**ENDLESS, "max_batch_sequences": 2, "max_queue_wait_s": 30.0}
    async with start_thread.started("x", ends=False, clock=clock, **sizes) as (engine, _), AsyncExitStack() as stack:
        await fill(engine, clock, stack, "flooder")
        for _ in range(6):
            await stack.enter_async_context(engine.generate(endless("flooder")))
        with pytest.raises(EngineOverloaded, match=r"the limit is 30\.0 s"):
            engine.reject_if_overloaded("flooder", 1.0)
        for _ in range(3):
            await stack.enter_async_context(engine.generate(endless("polite")))
        with pytest.raises(EngineOverloaded, match=r"the limit is 30\.0 s"):
            engine.reject_if_overloaded("polite", 1.0)
        with pytest.raises(EngineOverloaded, match=r"the limit is 0\.1 s"):
            engine.reject_if_overloaded("flooder", 1.0)


async def test_calls_that_all_waited_long_before_they_were_looked_at_are_refused(start_thread: Starter) -> None:
    """Though the engine has room; but not whoever has nothing there, and not at once: a moment's halt is no crowd."""
    clock = Clock()
    sizes = {**ENDLESS, "max_batch_sequences": 4, "max_queue_wait_s": 2.0}
    async with start_thread.started("x", ends=False, clock=clock, **sizes) as (engine, _), AsyncExitStack() as stack:
        await stack.enter_async_context(engine.generate(endless("flooder")))
        engine.reject_if_overloaded("flooder", 1.0, waited_s=2.5)
        clock.now += 1.0
        engine.reject_if_overloaded("flooder", 1.0)  # nobody knows how long this one has waited
        with pytest.raises(EngineOverloaded, match=r"for about 2\.5 s to begin; the limit is 2\.0 s"):
            engine.reject_if_overloaded("flooder", 1.0, waited_s=2.5)
        engine.reject_if_overloaded("flooder", 1.0, waited_s=0.3)
        engine.reject_if_overloaded("polite", 1.0, waited_s=2.5)
        engine.reject_if_overloaded("flooder", 1.0, waited_s=0.0)


async def test_who_says_he_waited_long_makes_no_crowd(start_thread: Starter) -> None:
    """Nor does he prolong one: without Envoy before it the service has only his word for it."""
    clock = Clock()
    sizes = {**ENDLESS, "max_batch_sequences": 2, "max_queue_wait_s": 20.0}
    async with start_thread.started("x", ends=False, clock=clock, **sizes) as (engine, _), AsyncExitStack() as stack:
        await fill(engine, clock, stack)
        engine.reject_if_overloaded("", 1.0, waited_s=1e9)
        clock.now += 1.0
        with pytest.raises(EngineOverloaded, match=r"the limit is 20\.0 s"):
            engine.reject_if_overloaded("", 1.0, waited_s=1e9)
        engine.reject_if_overloaded("", 1.0)
        for _ in range(4):
            await stack.enter_async_context(engine.generate(endless()))
        with pytest.raises(EngineOverloaded, match=r"the limit is 20\.0 s"):
            engine.reject_if_overloaded("", 1.0)  # begins one: the line is long
        clock.now += 1.9
        with pytest.raises(EngineOverloaded, match=r"the limit is 0\.1 s"):
            engine.reject_if_overloaded("", 1.0, waited_s=1e9)
        clock.now += 0.2


async def test_a_crowd_is_told_of_to_whoever_balances_by_how_many_may_run(start_thread: Starter) -> None:
    """One answer is as fast as any number that was measured, and four may run in any case: eight places are four."""
    clock = Clock()
    sizes = {**ENDLESS, "max_batch_sequences": 8, "max_queue_wait_s": 2.0}
    async with (
        start_thread.started("x", ends=False, clock=clock, **sizes) as (engine, script),
        AsyncExitStack() as stack,
    ):
        await stack.enter_async_context(engine.generate(endless()))
        for _ in range(2):
            num_steps = engine.stats().num_steps
            await until(lambda num_steps=num_steps: engine.stats().num_steps > num_steps)  # type: ignore[misc]
            clock.now += 1.0
        with script.paused():
            await until(script.is_at_gate)
            clock.now += 2 * SLOW_S
            for _ in range(7):
                await stack.enter_async_context(engine.generate(endless()))
            assert engine.stats().max_running == 8
            with pytest.raises(EngineOverloaded):
                engine.reject_if_overloaded("", 1.0)
            assert engine.stats().max_running == 4
            clock.now += 2.0
            assert engine.stats().max_running == 8


async def test_a_deadline_that_is_too_near_makes_no_crowd(start_thread: Starter) -> None:
    """Who is in a hurry is refused alone: the next with time may wait as long as is set."""
    clock = Clock()
    sizes = {**ENDLESS, "max_batch_sequences": 2, "max_queue_wait_s": 30.0}
    async with start_thread.started("x", ends=False, clock=clock, **sizes) as (engine, _), AsyncExitStack() as stack:
        await fill(engine, clock, stack)
        with pytest.raises(EngineOverloaded, match=r"the limit is 1\.0 s") as refused:
            engine.reject_if_overloaded("", 1.0, clock.now + 2)
        assert not refused.value.for_all
        engine.reject_if_overloaded("", 1.0)


async def test_a_polite_key_is_let_in_beside_a_flood(start_thread: Starter) -> None:
    """One key has both places and is refused more; another's request is let in, and begins."""
    clock = Clock()
    sizes = {**ENDLESS, "max_batch_sequences": 4, "max_queue_wait_s": 2.0, "block_size": 16}
    async with start_thread.started("x", ends=False, clock=clock, **sizes) as (engine, _), AsyncExitStack() as stack:
        await fill(engine, clock, stack, "flooder")
        await fill(engine, clock, stack, "flooder")
        with pytest.raises(EngineOverloaded):
            engine.reject_if_overloaded("flooder", 1.0)
        async with engine.generate(request("hello", caller_id="polite", max_tokens=3)) as outputs:
            await outputs.begun()
            assert len([i for output in await read(outputs) for i in output.token_ids]) == 3


async def test_a_stream_has_begun_when_something_was_computed(start: Starter) -> None:
    """Admission comes before; what fails between the two is raised where the beginning is waited for."""
    async with start.started(max_batch_sequences=1, **ENDLESS) as (engine, script), AsyncExitStack() as stack:
        with script.paused():
            first = await stack.enter_async_context(engine.generate(endless()))
            waiting = asyncio.create_task(first.begun())
            await until(script.is_at_gate)
            assert not waiting.done()
        await waiting
        second = await stack.enter_async_context(engine.generate(endless()))
        assert not engine.failed.done()
        script.fail("broken")
        with pytest.raises(Exception, match="the engine has failed"):
            await second.begun()


async def test_a_wait_may_be_without_bound(start_thread: Starter) -> None:
    """Who sets infinity has the queue's size alone."""
    clock = Clock()
    sizes = {**ENDLESS, "max_batch_sequences": 2, "max_queue_wait_s": math.inf}
    async with start_thread.started("x", ends=False, clock=clock, **sizes) as (engine, _), AsyncExitStack() as stack:
        await fill(engine, clock, stack)
        await stack.enter_async_context(engine.generate(endless()))
