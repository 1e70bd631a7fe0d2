"""The engine: the outputs of its streams, and the requests that it rejects."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from service.engine.core.sequences.choice_seed import choice_seed
from service.generation.errors import DeadlineExceeded, EngineError, EngineOverloaded, InvalidRequest, PromptTooLong
from service.generation.outputs.output import FinishReason
from service.generation.requests.request import GenerationRequest
from service.generation.stats import EngineStats
from tests.engine.fakes import Clock, read, request, until
from tests.engine.paged_runner import sums
from tests.engine.started_engine import Starter, generate, tokens


class CountingObserver:
    """Collects the stats after each step."""

    def __init__(self) -> None:
        self.stats: list[EngineStats] = []

    def on_step(self, stats: EngineStats) -> None:
        self.stats.append(stats)


async def test_engine_streams_the_sampled_tokens(start: Starter) -> None:
    """A stream has the sampled tokens in order. Only its last output has a finish reason and an end time."""
    async with start.started() as (engine, _):
        outputs = await generate(engine, request("hello", max_tokens=9))
    assert tokens(outputs) == sums(b"hello", 9, 0)
    assert [output.finish_reason for output in outputs[:-1]] == [None] * (len(outputs) - 1)
    assert all(output.timings.finished is None for output in outputs[:-1])
    timings = outputs[-1].timings
    assert timings.scheduled is not None
    assert timings.first_token is not None
    assert timings.finished is not None
    assert timings.arrived <= timings.scheduled <= timings.first_token <= timings.finished


async def test_engine_serves_many_requests_concurrently(start: Starter) -> None:
    """Concurrent requests get their own tokens, with a cache that is too small for all of them."""
    async with start.started(num_blocks=24, max_model_len=64, max_batch_sequences=8) as (engine, _):
        prompts = [f"prompt {i % 7} of {i}" for i in range(40)]
        answers = await asyncio.gather(*(generate(engine, request(prompt, ignore_eos=True)) for prompt in prompts))
    for prompt, outputs in zip(prompts, answers, strict=True):
        assert tokens(outputs) == sums(prompt.encode(), 8, 0)


async def test_engine_ends_each_choice_once(start: Starter) -> None:
    """Each of n choices has one last output, and its own text."""
    async with start.started("one", "second", "3") as (engine, _):
        outputs = await generate(engine, request(n=3, max_tokens=None))
    for index, text in enumerate(("one", "second", "3")):
        mine = [output for output in outputs if output.choice_index == index]
        assert "".join(output.text for output in mine) == text
        assert [output.finish_reason for output in mine if output.finish_reason] == [FinishReason.END_OF_TEXT]
        assert mine[-1].finish_reason


async def test_engine_draws_a_seed_for_each_request_without_one(start: Starter) -> None:
    """Requests without seeds get different tokens, and so do the choices of one request. Two alone may be equal."""
    async with start.started() as (engine, _):
        answers = [tokens(await generate(engine, request(seed=None, max_tokens=20))) for _ in range(8)]
        choices = await generate(engine, request(seed=None, n=8, max_tokens=20))
    assert len(set(map(tuple, answers))) > 1
    assert len({tuple(tokens(choices, index)) for index in range(8)}) > 1


async def test_engine_reproduces_a_choice_by_its_seed(start: Starter) -> None:
    """A request with the derived seed of a choice generates the tokens of the choice."""
    async with start.started() as (engine, _):
        outputs = await generate(engine, request(seed=11, n=3))
        for index in range(3):
            alone = await generate(engine, request(seed=choice_seed(11, index)))
            assert tokens(alone) == tokens(outputs, index)


@pytest.mark.slow
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
async def test_engine_shares_prompts_as_configured(
    start: Starter,
    prefix_caching: bool,  # noqa: FBT001
    salts: tuple[str, str],
    num_cached_tokens: int,
) -> None:
    """Only requests with the same salt share prompts. Without prefix caching, only choices of one request do."""
    async with start.started(prefix_caching=prefix_caching) as (engine, _):
        for salt in salts:
            outputs = await generate(engine, request("aaaabbbbc", n=2, cache_salt=salt))
    assert {output.num_cached_tokens for output in outputs} == {num_cached_tokens}


async def test_engine_merges_outputs_for_a_slow_reader(start: Starter) -> None:
    """A slow reader gets all tokens in one output."""
    async with start.started() as (engine, _), engine.generate(request("hello", max_tokens=20)) as stream:
        await until(lambda: engine.stats().num_generated_tokens == 20)
        outputs = await read(stream)
    assert len(outputs) == 1
    assert tokens(outputs) == sums(b"hello", 20, 0)


@pytest.mark.slow
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
async def test_engine_rejects_invalid_requests(
    start: Starter, wanted: GenerationRequest, error: type[EngineError] | None
) -> None:
    """An invalid request is rejected before it is queued."""
    async with start.started() as (engine, script):
        if error is None:
            assert await generate(engine, wanted)
            return
        with pytest.raises(error):
            await generate(engine, wanted)
        assert script.steps() == []


async def test_engine_rejects_a_prompt_that_exceeds_the_cache(start: Starter) -> None:
    """The size of the cache limits a prompt with its answer, like the context length."""
    async with start.started(num_blocks=4, max_model_len=1000) as (engine, _):
        with pytest.raises(PromptTooLong):
            await generate(engine, request("x" * 16))
        outputs = await generate(engine, request("x" * 10, max_tokens=None, ignore_eos=True))
    assert tokens(outputs) == sums(b"x" * 10, 6, 0)
    assert outputs[-1].finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize("sizes", [{"max_queue_requests": 2}, {"max_queue_tokens": 14}], ids=["requests", "tokens"])
async def test_engine_rejects_requests_while_the_queue_is_full(start_thread: Starter, sizes: dict[str, Any]) -> None:
    """Above the limit of queued requests or tokens, the error has a retry delay, and later requests are admitted."""
    clock = Clock()
    async with start_thread.started(clock=clock, **sizes) as (engine, script), AsyncExitStack() as readers:
        script.close_gate()  # no step ends, so no request is reported as started
        streams = [await readers.enter_async_context(engine.generate(request("hello"))) for _ in range(2)]
        for waited_s, retry_after_s in [(0.0, 1.0), (7.0, 7.0), (1000.0, 30.0)]:
            clock.now = 100.0 + waited_s
            with pytest.raises(EngineOverloaded) as caught:
                await generate(engine, request("hello"))
            assert caught.value.retry_after_s == retry_after_s
        script.open_gate()
        for stream in streams:
            assert tokens(await read(stream)) == sums(b"hello", 8, 0)
        assert tokens(await generate(engine, request("later"))) == sums(b"later", 8, 0)


@pytest.mark.parametrize("sizes", [{"max_queue_requests": 6}, {"max_queue_tokens": 30}], ids=["requests", "tokens"])
async def test_key_that_fills_the_queue_leaves_others_their_share(start_thread: Starter, sizes: dict[str, Any]) -> None:
    """Another key is admitted up to its share of the queue; the key that has filled the queue is rejected."""
    async with start_thread.started(**sizes) as (engine, script), AsyncExitStack() as readers:

        async def enter(caller_id: str, num_prompts: int = 1) -> Any:
            requests = [request("hello", caller_id=caller_id, max_tokens=2) for _ in range(num_prompts)]
            return await readers.enter_async_context(engine.generate(*requests))

        script.close_gate()
        streams = [await enter("a", 9)]  # larger than the queue, which is empty
        with pytest.raises(EngineOverloaded) as caught:
            await enter("a")
        assert caught.value.for_all
        with pytest.raises(EngineOverloaded) as caught:
            await enter("b", 4)
        assert not caught.value.for_all
        streams += [await enter("b", 2), await enter("b"), await enter("c", 2)]
        for caller_id in "abc":
            with pytest.raises(EngineOverloaded):
                await enter(caller_id)
        script.open_gate()
        assert [len(tokens(await read(stream))) for stream in streams[1:3]] == [4, 2]


async def test_engine_accepts_a_prompt_longer_than_the_queue_if_it_is_empty(start: Starter) -> None:
    """The limit of queued tokens does not limit the length of a prompt."""
    async with start.started(max_queue_tokens=10) as (engine, _):
        assert tokens(await generate(engine, request("x" * 50))) == sums(b"x" * 50, 8, 0)


async def test_engine_calls_its_observer_after_each_step(start: Starter) -> None:
    """The observer gets the stats after each step, in order, on the loop."""
    observer = CountingObserver()
    async with start.started(observer=observer) as (engine, _):
        await generate(engine, request("hello", max_tokens=3))
    assert [stats.num_steps for stats in observer.stats] == [1, 2, 3]
    assert [stats.num_generated_tokens for stats in observer.stats] == [1, 2, 3]
    assert observer.stats[-1].num_running == 0


@pytest.mark.parametrize("missing", ["num_blocks", "max_model_len"])
def test_engine_requires_sizes(start_thread: Starter, missing: str) -> None:
    """Sizes of the model and the cache must be known before the client is created."""
    with pytest.raises(ValueError, match=missing):
        start_thread.generator(**{missing: None})  # type: ignore[arg-type]
