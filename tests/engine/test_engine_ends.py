"""Engine: one terminal for every stream on every way out, and the end of the engine itself."""

from __future__ import annotations

import asyncio
import threading

import pytest

from service.engine.engine import Engine
from service.generation.errors import DeadlineExceeded, EngineClosed, EngineFailed, SequenceError
from tests.engine.fakes import END, ByteTokenizer, Clock, PagedRunner, config_of, read, request, sums, until
from tests.engine.started_engine import ENDLESS, generate, is_idle, started, tokens


async def test_engine_ends_a_stream_at_its_deadline() -> None:
    """A running request's stream ends with DeadlineExceeded, after what it had to say."""
    clock = Clock()
    async with started(clock=clock) as (engine, runner):
        runner.gate = threading.Event()
        async with engine.generate(request(deadline=clock.now + 5)) as stream:
            await until(runner.at_gate.is_set)
            clock.now += 5
            runner.gate.set()
            assert len((await anext(stream)).token_ids) == 1
            with pytest.raises(DeadlineExceeded):
                await anext(stream)
            assert await read(stream) == []


async def test_engine_fails_one_request_alone() -> None:
    """A SequenceError reaches its own reader; the neighbour ends well."""
    async with started() as (engine, runner):
        runner.bad_sequences.add((0, 0))
        bad, good = await asyncio.gather(
            generate(engine, request("bad")), generate(engine, request("good")), return_exceptions=True
        )
    assert isinstance(bad, SequenceError)
    assert not isinstance(good, BaseException)
    assert tokens(good) == sums(b"good", 8, 0)


class Panic(BaseException):
    """What a library in another language may raise: no Exception."""


@pytest.mark.parametrize("reason", [MemoryError("secret detail"), Panic("secret detail")], ids=["exception", "panic"])
async def test_engine_that_fails_tells_every_reader(caplog: pytest.LogCaptureFixture, reason: BaseException) -> None:
    """When the thread dies each stream ends with EngineFailed, new requests too, and `failed` has the reason."""
    async with started(max_batch_sequences=1) as (engine, runner):
        runner.gate = threading.Event()
        readings = [asyncio.create_task(generate(engine, request(str(i)))) for i in range(3)]
        await until(runner.at_gate.is_set)
        runner.fail_with = reason
        runner.gate.set()
        for error in await asyncio.gather(*readings, return_exceptions=True):
            assert isinstance(error, EngineFailed)
            assert "secret" not in str(error)
            assert error.__cause__ is reason
        assert await engine.failed is reason
        with pytest.raises(EngineFailed):
            await generate(engine, request())
        await engine.drain(0)
    assert "secret detail" in caplog.text


async def test_engine_drains() -> None:
    """While it drains, what runs ends well and what is new is refused."""
    async with started() as (engine, runner):
        runner.gate = threading.Event()
        running = asyncio.create_task(generate(engine, request("hello")))
        await until(runner.at_gate.is_set)
        draining = asyncio.create_task(engine.drain(1000))
        await asyncio.sleep(0)
        with pytest.raises(EngineClosed):
            await generate(engine, request())
        runner.gate.set()
        await asyncio.wait_for(draining, 20)
        assert running.done()
        assert tokens(running.result()) == sums(b"hello", 8, 0)


async def test_engine_ends_what_is_left_after_the_drain() -> None:
    """What has not ended in time ends with EngineClosed, running or waiting, and its blocks are free."""
    async with started(max_batch_sequences=1, **ENDLESS) as (engine, runner):
        wanted = request(max_tokens=None, ignore_eos=True)
        readings = [asyncio.create_task(generate(engine, wanted)) for _ in range(3)]
        await until(lambda: engine.stats().num_generated_tokens > 0)
        runner.gate = threading.Event()
        await engine.drain(0.01)
        runner.gate.set()
        for error in await asyncio.gather(*readings, return_exceptions=True):
            assert isinstance(error, EngineClosed)
        await until(lambda: is_idle(engine))


async def test_engine_closes_with_readers_inside() -> None:
    """Closing ends all streams with EngineClosed and the thread with them; doing it again changes nothing."""
    runner = PagedRunner()
    engine = Engine(runner, ByteTokenizer(), config_of(**ENDLESS), eos_token_ids=[END])
    await engine.close()  # it was never started
    engine.start()
    reading = asyncio.create_task(generate(engine, request(max_tokens=None, ignore_eos=True)))
    await until(lambda: engine.stats().num_generated_tokens > 0)
    await engine.close()
    await engine.close()
    with pytest.raises(EngineClosed):
        await reading
    engine._thread._thread.join(20)
    assert not engine._thread._thread.is_alive()


def test_engine_thread_ends_with_its_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that nobody closed does not outlive the loop that it reports to."""
    monkeypatch.setattr("service.engine.engine_thread._HEARTBEAT_S", 0.01)

    async def leave() -> Engine:
        engine = Engine(PagedRunner(), ByteTokenizer(), config_of(), eos_token_ids=[END])
        engine.start()
        return engine

    engine = asyncio.run(leave())
    engine._thread._thread.join(20)
    assert not engine._thread._thread.is_alive()


async def test_engine_heartbeat_goes_on_when_idle_and_stops_when_a_step_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The age of the heartbeat tells an idle engine from one whose step does not return."""
    monkeypatch.setattr("service.engine.engine_thread._HEARTBEAT_S", 0.01)
    async with started() as (engine, runner):
        first = engine._thread._heartbeat
        await until(lambda: engine._thread._heartbeat > first)
        assert engine.heartbeat_age_s >= 0
        runner.gate = threading.Event()
        async with engine.generate(request()):
            await until(runner.at_gate.is_set)
            hung = engine._thread._heartbeat
            await until(lambda: engine.heartbeat_age_s > 0.05)
            assert engine._thread._heartbeat == hung
            runner.gate.set()
