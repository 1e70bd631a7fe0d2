"""The ends of streams and engines: every stream ends once, in each way in which it can end."""

from __future__ import annotations

import asyncio
import threading

import pytest

from service.generation.errors import DeadlineExceeded, EngineClosed, EngineFailed, SequenceError
from tests.engine.fakes import Clock, read, request, until
from tests.engine.paged_runner import sums
from tests.engine.started_engine import ENDLESS, NEVER, Starter, generate, is_idle, tokens
from tests.waiting import GUARD_S

HEARTBEAT_INTERVAL_S = 0.01


def has_thread(name: str) -> bool:
    """Return whether a thread of that name runs in this process."""
    return any(thread.name == name for thread in threading.enumerate())


async def test_engine_ends_a_stream_at_its_deadline(start_thread: Starter) -> None:
    """The stream of a running request raises DeadlineExceeded after its outputs."""
    clock = Clock()
    async with start_thread.started(clock=clock) as (engine, script):
        script.close_gate()
        async with engine.generate(request(deadline=clock.now + 5)) as stream:
            await until(script.is_at_gate)
            clock.now += 5
            script.open_gate()
            assert len((await anext(stream)).token_ids) == 1
            with pytest.raises(DeadlineExceeded):
                await anext(stream)
            assert await read(stream) == []


async def test_engine_fails_one_request_alone(start: Starter) -> None:
    """A SequenceError is raised to its own reader, and another request completes."""
    async with start.started() as (engine, script):
        script.fail_sequence(0)
        bad, good = await asyncio.gather(
            generate(engine, request("bad")), generate(engine, request("good")), return_exceptions=True
        )
    assert isinstance(bad, SequenceError)
    assert not isinstance(good, BaseException)
    assert tokens(good) == sums(b"good", 8, 0)


@pytest.mark.parametrize("panics", [False, True], ids=["exception", "panic"])
async def test_engine_that_fails_ends_every_stream(
    start: Starter,
    caplog: pytest.LogCaptureFixture,
    panics: bool,  # noqa: FBT001
) -> None:
    """Each stream and each new request gets EngineFailed, and `failed` has the reason."""
    async with start.started(max_batch_sequences=1, link={"restarts": NEVER}) as (engine, script):
        script.close_gate()
        readings = [asyncio.create_task(generate(engine, request(str(i)))) for i in range(3)]
        await until(script.is_at_gate)
        script.fail("secret detail", panics=panics)
        script.open_gate()
        for error in await asyncio.gather(*readings, return_exceptions=True):
            assert isinstance(error, EngineFailed)
            assert "secret" not in str(error)
            assert "secret detail" in str(error.__cause__)
        assert "secret detail" in str(await engine.failed)
        with pytest.raises(EngineFailed):
            await generate(engine, request())
        await engine.drain(0)
    assert "secret detail" in caplog.text


async def test_engine_drains(start: Starter) -> None:
    """During a drain, running requests complete and new ones are rejected."""
    async with start.started() as (engine, script):
        script.close_gate()
        running = asyncio.create_task(generate(engine, request("hello")))
        await until(script.is_at_gate)
        draining = asyncio.create_task(engine.drain(1000))
        await asyncio.sleep(0)
        with pytest.raises(EngineClosed):
            await generate(engine, request())
        script.open_gate()
        await asyncio.wait_for(draining, GUARD_S)
        assert tokens(await running) == sums(b"hello", 8, 0)


async def test_engine_ends_open_requests_after_the_drain(start: Starter) -> None:
    """After the timeout, running and queued requests end with EngineClosed, and their blocks are free."""
    async with start.started(max_batch_sequences=1, **ENDLESS) as (engine, script):
        wanted = request(max_tokens=None, ignore_eos=True)
        readings = [asyncio.create_task(generate(engine, wanted)) for _ in range(3)]
        await until(lambda: engine.stats().num_generated_tokens > 0)
        script.close_gate()
        await engine.drain(0.01)
        script.open_gate()
        for error in await asyncio.gather(*readings, return_exceptions=True):
            assert isinstance(error, EngineClosed)
        await until(lambda: is_idle(engine))


@pytest.mark.slow
async def test_engine_closes_with_open_streams(start: Starter) -> None:
    """Closing ends all streams with EngineClosed, and a second close does nothing."""
    never_started, _ = start.generator()
    await never_started.close()
    engine, _ = start.generator(**ENDLESS)
    engine.start()
    reading = asyncio.create_task(generate(engine, request(max_tokens=None, ignore_eos=True)))
    await until(lambda: engine.stats().num_generated_tokens > 0)
    await engine.close()
    await engine.close()
    with pytest.raises(EngineClosed):
        await reading


async def test_engine_thread_ends_with_its_engine(start_thread: Starter) -> None:
    """A closed engine leaves no thread."""
    async with start_thread.started(link={"name": "to be closed"}) as (engine, _):
        await generate(engine, request())
        assert has_thread("to be closed")
    await until(lambda: not has_thread("to be closed"))


@pytest.mark.parametrize("kind", ["generator", "embedder"])
async def test_engine_thread_ends_with_its_loop(start_thread: Starter, kind: str) -> None:
    """The thread of an engine that was never closed ends after its event loop was closed."""
    name = f"forgotten {kind}"

    async def leave() -> None:
        engine, _ = getattr(start_thread, kind)(link={"heartbeat_interval_s": HEARTBEAT_INTERVAL_S, "name": name})
        engine.start()
        assert has_thread(name)

    await asyncio.to_thread(asyncio.run, leave())
    await until(lambda: not has_thread(name))


@pytest.mark.parametrize("kind", ["generator", "embedder"])
async def test_heartbeat_continues_when_idle(start: Starter, kind: str) -> None:
    """An idle engine sends heartbeats."""
    engine, _ = getattr(start, kind)(link={"heartbeat_interval_s": HEARTBEAT_INTERVAL_S})
    async with engine:
        for _ in range(3):
            await until(lambda: engine.heartbeat_age_s > HEARTBEAT_INTERVAL_S / 2)
            await until(lambda: engine.heartbeat_age_s < HEARTBEAT_INTERVAL_S / 2)


@pytest.mark.slow
async def test_heartbeat_stops_when_a_step_hangs(start: Starter) -> None:
    """The heartbeat's age distinguishes an idle engine from one with a step that does not return."""
    async with start.started(link={"heartbeat_interval_s": HEARTBEAT_INTERVAL_S}) as (engine, script):
        with script.paused():
            async with engine.generate(request()):
                await until(script.is_at_gate)
                await until(lambda: engine.heartbeat_age_s > 20 * HEARTBEAT_INTERVAL_S)
        await until(lambda: engine.heartbeat_age_s < 10 * HEARTBEAT_INTERVAL_S)
