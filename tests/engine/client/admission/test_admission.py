"""Admission: a request is rejected immediately, with a retry delay, unless it is expected to start in time."""

from __future__ import annotations

import asyncio
import math
from contextlib import AsyncExitStack

import pytest

from service.engine.client.admission.admission import Admission
from service.engine.client.generator import GeneratorClient
from service.engine.client.open_generation import OpenGeneration
from service.engine.client.output_stream import OutputStream
from service.engine.client.wakeups import WakeupLimiter
from service.generation.errors import EngineOverloaded
from service.generation.requests.request import GenerationRequest
from service.generation.service_level import ServiceLevel
from service.generation.stats import EngineStats
from tests.engine.fakes import Clock, config_of, read, request, until
from tests.engine.started_engine import ENDLESS, Starter

SLOW_S = 10.0  # that a sequence has run


def endless(caller_id: str = "", **fields: object) -> GenerationRequest:
    return request("hello", max_tokens=None, ignore_eos=True, caller_id=caller_id, **fields)  # type: ignore[arg-type]


async def fill(engine: GeneratorClient, clock: Clock, stack: AsyncExitStack, caller_id: str = "") -> None:
    """Take two slots with sequences that have run for ten seconds."""
    for _ in range(2):
        outputs = await stack.enter_async_context(engine.generate(endless(caller_id)))
        await outputs.until_started()
    clock.now += SLOW_S


async def test_a_request_that_would_wait_too_long_is_rejected_on_arrival(start_thread: Starter) -> None:
    """With two slots of ten seconds each, the wait is 5 s and the limit 2 s, so the retry delay is 3 s."""
    clock = Clock()
    sizes = {**ENDLESS, "max_batch_sequences": 2, "max_queue_wait_s": 2.0}
    async with start_thread.started("x", ends=False, clock=clock, **sizes) as (engine, _), AsyncExitStack() as stack:
        await fill(engine, clock, stack)
        with pytest.raises(
            EngineOverloaded, match=r"would wait for about 5\.0 s to begin; the limit is 2\.0 s"
        ) as caught:
            await stack.enter_async_context(engine.generate(endless()))
        assert caught.value.retry_after_s == pytest.approx(3.0)
        assert caught.value.for_all
        with pytest.raises(EngineOverloaded):
            engine.reject_if_overloaded("", 1.0)
        engine.reject_if_overloaded("another key", 1.0)


async def test_a_deadline_limits_the_wait_too(start_thread: Starter) -> None:
    """If waits of 30 s are allowed, a request with 8 s left must start within 4 s. One with 12 s left is admitted."""
    clock = Clock()
    sizes = {**ENDLESS, "max_batch_sequences": 2, "max_queue_wait_s": 30.0}
    async with start_thread.started("x", ends=False, clock=clock, **sizes) as (engine, _), AsyncExitStack() as stack:
        await fill(engine, clock, stack)
        with pytest.raises(EngineOverloaded, match=r"the limit is 4\.0 s"):
            engine.reject_if_overloaded("", 1.0, clock.now + 8)
        engine.reject_if_overloaded("", 1.0, clock.now + 12)


async def test_the_queue_is_kept_short_for_two_seconds_after_a_rejection(start_thread: Starter) -> None:
    """Four requests may wait for two slots of ten seconds.

    The fifth is rejected, and so is the next one after one has left.
    """
    clock = Clock()
    sizes = {**ENDLESS, "max_batch_sequences": 2, "max_queue_wait_s": 24.0}
    async with start_thread.started("x", ends=False, clock=clock, **sizes) as (engine, _), AsyncExitStack() as stack:
        await fill(engine, clock, stack)
        for _ in range(3):
            await stack.enter_async_context(engine.generate(endless()))
        async with engine.generate(endless()):
            with pytest.raises(EngineOverloaded, match=r"the limit is 24\.0 s"):
                engine.reject_if_overloaded("", 1.0)
        with pytest.raises(EngineOverloaded, match=r"the limit is 0\.5 s"):
            engine.reject_if_overloaded("", 1.0)
        engine.reject_if_overloaded("another key", 1.0)
        clock.now += 2.0
        await stack.enter_async_context(engine.generate(endless()))


async def test_an_overload_shortens_the_queue_of_the_keys_that_cause_it(start_thread: Starter) -> None:
    """A key with less than half of the largest load may wait as long as the setting allows."""
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
        with pytest.raises(EngineOverloaded, match=r"the limit is 0\.6 s"):
            engine.reject_if_overloaded("flooder", 1.0)


async def test_requests_that_all_arrive_late_are_rejected(start_thread: Starter) -> None:
    """Late requests are rejected although slots are free.

    This does not hold within the first second, nor for a key without load.
    """
    clock = Clock()
    sizes = {**ENDLESS, "max_batch_sequences": 4, "max_queue_wait_s": 2.0}
    async with start_thread.started("x", ends=False, clock=clock, **sizes) as (engine, _), AsyncExitStack() as stack:
        await stack.enter_async_context(engine.generate(endless("flooder")))
        engine.reject_if_overloaded("flooder", 1.0, waited_s=2.5)
        clock.now += 1.0
        engine.reject_if_overloaded("flooder", 1.0)  # its wait is unknown
        with pytest.raises(EngineOverloaded, match=r"for about 2\.5 s to begin; the limit is 2\.0 s"):
            engine.reject_if_overloaded("flooder", 1.0, waited_s=2.5)
        engine.reject_if_overloaded("flooder", 1.0, waited_s=0.3)
        engine.reject_if_overloaded("polite", 1.0, waited_s=2.5)
        engine.reject_if_overloaded("flooder", 1.0, waited_s=0.0)


async def test_a_claimed_wait_starts_no_overload(start_thread: Starter) -> None:
    """A claimed wait neither starts nor prolongs an overload, because clients that bypass Envoy can claim any wait."""
    clock = Clock()
    sizes = {**ENDLESS, "max_batch_sequences": 2, "max_queue_wait_s": 24.0}
    async with start_thread.started("x", ends=False, clock=clock, **sizes) as (engine, _), AsyncExitStack() as stack:
        await fill(engine, clock, stack)
        engine.reject_if_overloaded("", 1.0, waited_s=1e9)
        clock.now += 1.0
        with pytest.raises(EngineOverloaded, match=r"the limit is 24\.0 s"):
            engine.reject_if_overloaded("", 1.0, waited_s=1e9)
        engine.reject_if_overloaded("", 1.0)
        for _ in range(4):
            await stack.enter_async_context(engine.generate(endless()))
        with pytest.raises(EngineOverloaded, match=r"the limit is 24\.0 s"):
            engine.reject_if_overloaded("", 1.0)  # the queue is long, so this starts an overload
        clock.now += 1.9
        with pytest.raises(EngineOverloaded, match=r"the limit is 0\.5 s"):
            engine.reject_if_overloaded("", 1.0, waited_s=1e9)
        clock.now += 0.2


@pytest.mark.parametrize("length", [0, 900, 9000])
def test_prompts_count_as_work_in_the_limit(length: int) -> None:
    """An engine that does the work of ten lone answers has the same limit, however long the prompts become."""
    admission = Admission(config_of(max_batch_sequences=64, max_batch_tokens=64, overload_slowdown=3.0))
    now = num_tokens = num_prompt_tokens = 0
    for prompt in (0, length):
        alone_s = 1.0 + 0.001 * prompt
        for _ in range(200):
            stats = EngineStats(
                decode_step_s=0.01,
                prompt_token_s=0.001,
                num_generated_tokens=num_tokens,
                num_computed_tokens=num_tokens + num_prompt_tokens,
            )
            admission.record_steps(now, 64, [stats], stats)
            admission.record_answer(prompt, 100, alone_s)
            now += 1
            num_tokens += round(10 * 100 / alone_s)
            num_prompt_tokens += round(10 * prompt / alone_s)
    limit = admission.in_flight_limit(now)
    assert limit is not None
    assert limit.sustained == pytest.approx(30, abs=1)


async def test_a_near_deadline_starts_no_overload(start_thread: Starter) -> None:
    """Only the request with the near deadline is rejected; others may wait as long as the setting allows."""
    clock = Clock()
    sizes = {**ENDLESS, "max_batch_sequences": 2, "max_queue_wait_s": 30.0}
    async with start_thread.started("x", ends=False, clock=clock, **sizes) as (engine, _), AsyncExitStack() as stack:
        await fill(engine, clock, stack)
        with pytest.raises(EngineOverloaded, match=r"the limit is 1\.0 s") as caught:
            engine.reject_if_overloaded("", 1.0, clock.now + 2)
        assert not caught.value.for_all
        engine.reject_if_overloaded("", 1.0)


async def test_a_polite_key_is_admitted_during_a_flood(start_thread: Starter) -> None:
    """While one key holds all slots and is rejected, another key's request is admitted and starts."""
    clock = Clock()
    sizes = {**ENDLESS, "max_batch_sequences": 4, "max_queue_wait_s": 2.0, "block_size": 16}
    async with start_thread.started("x", ends=False, clock=clock, **sizes) as (engine, _), AsyncExitStack() as stack:
        await fill(engine, clock, stack, "flooder")
        await fill(engine, clock, stack, "flooder")
        with pytest.raises(EngineOverloaded):
            engine.reject_if_overloaded("flooder", 1.0)
        async with engine.generate(request("hello", caller_id="polite", max_tokens=3)) as outputs:
            await outputs.until_started()
            assert len([i for output in await read(outputs) for i in output.token_ids]) == 3


async def test_a_stream_has_begun_when_something_was_computed(start: Starter) -> None:
    """`until_started` returns after the first step of a request, and raises an error that occurs before it."""
    async with start.started(max_batch_sequences=1, **ENDLESS) as (engine, script), AsyncExitStack() as stack:
        with script.paused():
            first = await stack.enter_async_context(engine.generate(endless()))
            waiting = asyncio.create_task(first.until_started())
            await until(script.is_at_gate)
            assert not waiting.done()
        await waiting
        second = await stack.enter_async_context(engine.generate(endless()))
        assert not engine.failed.done()
        script.fail("broken")
        with pytest.raises(Exception, match="the engine has failed"):
            await second.until_started()


async def test_a_wait_may_be_unlimited(start_thread: Starter) -> None:
    """If max_queue_wait_s is infinite, only the queue's size is limited."""
    clock = Clock()
    sizes = {**ENDLESS, "max_batch_sequences": 2, "max_queue_wait_s": math.inf}
    async with start_thread.started("x", ends=False, clock=clock, **sizes) as (engine, _), AsyncExitStack() as stack:
        await fill(engine, clock, stack)
        await stack.enter_async_context(engine.generate(endless()))


@pytest.mark.parametrize(
    ("level", "message"),
    [
        (ServiceLevel(None, 0.0105), "the objective per token can't be met now"),
        (ServiceLevel(0.1, 0.1), r"the first token would come 0\.\d s after its objective"),
    ],
)
def test_a_service_level_that_cannot_be_met_is_rejected(level: ServiceLevel, message: str) -> None:
    """A request is rejected if a step or the prompts before it take too long; an idle engine admits it."""
    clock = Clock()
    admission = Admission(config_of())
    stats = EngineStats(decode_step_s=0.010, decode_row_s=0.005, prompt_token_s=0.001, num_computed_tokens=50)
    wanted = request("x" * 100, service_level=level)
    admission.check(clock.now, [wanted], [], stats)
    admission.record_steps(clock.now, 1, [stats], stats)
    opened = [
        OpenGeneration(wanted, OutputStream(1, WakeupLimiter()), clock.now, admission.queue_wait, clock)
        for wanted in [request("y" * 50, service_level=ServiceLevel(0.1, 0.1))]
    ]
    with pytest.raises(EngineOverloaded, match=message) as caught:
        admission.check(clock.now, [wanted], opened, stats)
    assert caught.value.retry_after_s >= 1
    assert not caught.value.for_all
    admission.check(clock.now, [request("batch")], opened, stats)
    admission.check(clock.now, [request("x" * 100, service_level=ServiceLevel(1.0, 0.1))], opened, stats)


def test_an_objective_is_tried_again_after_prompts_were_measured_long_ago() -> None:
    """A prompt that was measured in a stall does not reject all first-token objectives while a stream is open."""
    clock = Clock()
    admission = Admission(config_of())
    slow = EngineStats(decode_step_s=0.010, prompt_token_s=1.0, num_computed_tokens=50)
    wanted = request("x" * 100, service_level=ServiceLevel(0.5, 0.1))
    stream = OpenGeneration(wanted, OutputStream(1, WakeupLimiter()), clock.now, admission.queue_wait, clock)
    stream.has_output = True
    admission.record_steps(clock.now, 1, [slow], slow)
    for _ in range(2):  # each try may measure prompts again
        clock.now += 4.0
        with pytest.raises(EngineOverloaded, match="the first token would come"):
            admission.check(clock.now, [wanted], [stream], slow)
        clock.now += 2.0
        admission.check(clock.now, [wanted], [stream], slow)
        with pytest.raises(EngineOverloaded, match="the first token would come"):
            admission.check(clock.now, [wanted], [stream], slow)
