"""Engine: one terminal for every stream on every way out, and nothing left behind."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import pytest

from service.engine.config import EngineConfig
from service.engine.engine import Engine
from service.engine.errors import (
    DeadlineExceeded,
    EngineClosed,
    EngineError,
    EngineFailed,
    EngineOverloaded,
    InvalidRequest,
    PromptTooLong,
    SequenceError,
)
from service.engine.sequence import choice_seed
from service.engine.types import EngineStats, FinishReason, GenerationOutput, GenerationRequest
from tests.engine.fakes import (
    END,
    ByteTokenizer,
    Clock,
    PagedRunner,
    Rule,
    config_of,
    read,
    request,
    say,
    sum_rule,
    sums,
    until,
)

ENDLESS: dict[str, Any] = {
    "num_blocks": 10_000,
    "max_model_len": 40_000,
}  # an answer without max_tokens does not end in a test's time


class Counting:
    """Observes steps."""

    def __init__(self) -> None:
        self.stats: list[EngineStats] = []

    def on_step(self, stats: EngineStats) -> None:
        self.stats.append(stats)


@asynccontextmanager
async def started(
    rule: Rule = sum_rule,
    *,
    observer: Counting | None = None,
    clock: Callable[[], float] = time.monotonic,
    **sizes: Any,
) -> AsyncIterator[tuple[Engine, PagedRunner]]:
    """An engine at work. In the end it must be idle with every block free, or have failed."""
    config = config_of(**sizes)
    runner = PagedRunner(rule, config.block_size)
    async with Engine(runner, ByteTokenizer(), config, eos_token_ids=[END], observer=observer, clock=clock) as engine:
        try:
            yield engine, runner
        finally:
            if runner.gate:
                runner.gate.set()
    if not engine.failed.done():
        assert is_idle(engine)
        assert not runner.kept
        engine._core.check()


def is_idle(engine: Engine) -> bool:
    stats = engine.stats()
    return (stats.num_running, stats.num_waiting, stats.num_free_blocks) == (0, 0, stats.num_blocks)


async def generate(engine: Engine, wanted: GenerationRequest) -> list[GenerationOutput]:
    async with engine.generate(wanted) as stream:
        return await read(stream)


def tokens(outputs: list[GenerationOutput], choice_index: int = 0) -> list[int]:
    return [i for output in outputs if output.choice_index == choice_index for i in output.token_ids]


async def test_engine_streams_what_the_runner_samples() -> None:
    """A stream brings the runner's tokens in order; its last output alone has a finish reason and the end's instant."""
    async with started() as (engine, _):
        outputs = await generate(engine, request("hello", max_tokens=9))
    assert tokens(outputs) == sums(b"hello", 9, 0)
    assert [output.finish_reason for output in outputs[:-1]] == [None] * (len(outputs) - 1)
    assert all(output.timings.finished is None for output in outputs[:-1])
    timings = outputs[-1].timings
    assert timings.scheduled is not None
    assert timings.first_token is not None
    assert timings.finished is not None
    assert timings.arrived <= timings.scheduled <= timings.first_token <= timings.finished


async def test_engine_serves_many_at_once() -> None:
    """Requests side by side each get their own tokens, on a cache that can't hold them all."""
    async with started(num_blocks=24, max_model_len=64, max_batch_sequences=8) as (engine, _):
        prompts = [f"prompt {i % 7} of {i}" for i in range(40)]
        answers = await asyncio.gather(*(generate(engine, request(prompt, ignore_eos=True)) for prompt in prompts))
    for prompt, outputs in zip(prompts, answers, strict=True):
        assert tokens(outputs) == sums(prompt.encode(), 8, 0)


async def test_engine_ends_each_choice_once() -> None:
    """Each of n choices has one last output, and their texts do not mix."""
    async with started(say("one", "second", "3")) as (engine, _):
        outputs = await generate(engine, request(n=3, max_tokens=None))
    for index, text in enumerate(("one", "second", "3")):
        mine = [output for output in outputs if output.choice_index == index]
        assert "".join(output.text for output in mine) == text
        assert [output.finish_reason for output in mine if output.finish_reason] == [FinishReason.END_OF_TEXT]
        assert mine[-1].finish_reason


async def test_engine_draws_a_seed_for_each_request_without_one() -> None:
    """Two requests without seeds are sampled differently; the choices of one as well."""
    async with started() as (engine, _):
        answers = [tokens(await generate(engine, request(seed=None, max_tokens=20))) for _ in range(2)]
        both = await generate(engine, request(seed=None, n=2, max_tokens=20))
    assert answers[0] != answers[1]
    assert tokens(both, 0) != tokens(both, 1)


async def test_engine_gives_a_choice_again_by_its_seed() -> None:
    """A request with the derived seed of a choice says what the choice said."""
    async with started() as (engine, _):
        outputs = await generate(engine, request(seed=11, n=3))
        for index in range(3):
            alone = await generate(engine, request(seed=choice_seed(11, index)))
            assert tokens(alone) == tokens(outputs, index)


@pytest.mark.parametrize(
    ("prefix_caching", "salts", "num_cached_tokens"),
    [
        (True, ("", ""), 8),
        (True, ("one", "one"), 8),
        (True, ("one", "two"), 0),
        (True, ("alone 0", ""), 0),
        (False, ("", ""), 0),
    ],
)
async def test_engine_shares_prompts_as_it_is_told(
    prefix_caching: bool,  # noqa: FBT001
    salts: tuple[str, str],
    num_cached_tokens: int,
) -> None:
    """Requests of one salt find each other's prompts, others don't; switched off, none does, though choices share."""
    async with started(prefix_caching=prefix_caching) as (engine, _):
        for salt in salts:
            outputs = await generate(engine, request("aaaabbbbc", n=2, cache_salt=salt))
    assert {output.num_cached_tokens for output in outputs} == {num_cached_tokens}


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


async def test_engine_merges_for_a_slow_reader() -> None:
    """A reader that comes late gets all at once."""
    async with started() as (engine, _), engine.generate(request("hello", max_tokens=20)) as stream:
        await until(lambda: engine.stats().num_generated_tokens == 20)
        await asyncio.sleep(0)  # the last step's report
        outputs = await read(stream)
    assert len(outputs) == 1
    assert tokens(outputs) == sums(b"hello", 20, 0)


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (request(""), InvalidRequest),
        (request(n=0), InvalidRequest),
        (request("x" * 127), None),
        (request("x" * 128), PromptTooLong),
        (request(deadline=0.0), DeadlineExceeded),
    ],
)
async def test_engine_refuses_at_the_door(wanted: GenerationRequest, error: type[EngineError] | None) -> None:
    """What can't be served is refused before it is queued."""
    async with started() as (engine, runner):
        if error is None:
            assert await generate(engine, wanted)
            return
        with pytest.raises(error):
            await generate(engine, wanted)
        assert runner.steps == []


async def test_engine_refuses_a_prompt_that_the_cache_can_not_hold() -> None:
    """The cache bounds a sequence as the context does: in both directions, with its answer."""
    async with started(num_blocks=4, max_model_len=1000) as (engine, _):
        with pytest.raises(PromptTooLong):
            await generate(engine, request("x" * 16))
        outputs = await generate(engine, request("x" * 10, max_tokens=None, ignore_eos=True))
    assert tokens(outputs) == sums(b"x" * 10, 6, 0)
    assert outputs[-1].finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize("sizes", [{"max_queue_requests": 2}, {"max_queue_tokens": 14}], ids=["requests", "tokens"])
async def test_engine_refuses_when_the_queue_is_full(sizes: dict[str, Any]) -> None:
    """Beyond so many waiting requests or prompt tokens the next is told when to come back; later there is room."""
    clock = Clock()
    async with started(clock=clock, **sizes) as (engine, runner), AsyncExitStack() as readers:
        runner.gate = threading.Event()  # no step ends, so no request is reported as started
        streams = [await readers.enter_async_context(engine.generate(request("hello"))) for _ in range(2)]
        for waited_s, retry_after_s in [(0.0, 1.0), (7.0, 7.0), (1000.0, 30.0)]:
            clock.now = 100.0 + waited_s
            with pytest.raises(EngineOverloaded) as caught:
                await generate(engine, request("hello"))
            assert caught.value.retry_after_s == retry_after_s
        runner.gate.set()
        for stream in streams:
            assert tokens(await read(stream)) == sums(b"hello", 8, 0)
        assert tokens(await generate(engine, request("later"))) == sums(b"later", 8, 0)


async def test_engine_takes_a_prompt_longer_than_the_queue_when_nobody_waits() -> None:
    """The bound on waiting tokens is not a bound on a prompt's length."""
    async with started(max_queue_tokens=10) as (engine, _):
        assert tokens(await generate(engine, request("x" * 50))) == sums(b"x" * 50, 8, 0)


async def test_engine_frees_a_place_in_the_queue_when_a_waiting_reader_leaves() -> None:
    """Who leaves no longer counts."""
    async with started(max_queue_requests=1) as (engine, _):
        for _ in range(5):
            async with engine.generate(request()):
                pass


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


async def test_engine_tells_its_observer_of_each_step() -> None:
    """The observer has the stats after each step, in order, on the loop."""
    observer = Counting()
    async with started(observer=observer) as (engine, _):
        await generate(engine, request("hello", max_tokens=3))
    assert [stats.num_steps for stats in observer.stats] == [1, 2, 3]
    assert [stats.num_generated_tokens for stats in observer.stats] == [1, 2, 3]
    assert observer.stats[-1].num_running == 0


@pytest.mark.parametrize("missing", ["num_blocks", "max_model_len"])
def test_engine_wants_sizes_that_are_known(missing: str) -> None:
    """What the model and the memory decide must be decided before the engine is made."""
    sizes = {"num_blocks": 4, "max_model_len": 16, missing: None}
    with pytest.raises(ValueError, match=missing):
        Engine(PagedRunner(), ByteTokenizer(), EngineConfig(**sizes), eos_token_ids=[END])  # type: ignore[arg-type]
