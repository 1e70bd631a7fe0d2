"""Several requests with one stream: admitted together or not at all, distinguished by index, and ended together."""

from __future__ import annotations

import pytest

from service.generation.errors import EngineOverloaded, InvalidRequest, SequenceError
from service.generation.outputs.output import GenerationOutput
from tests.engine.fakes import read, request, until
from tests.engine.paged_runner import sums
from tests.engine.started_engine import Starter, generate, is_idle


def tokens_of(outputs: list[GenerationOutput], request_index: int, choice_index: int = 0) -> list[int]:
    """Return the tokens of one choice of one request."""
    return [
        token_id
        for output in outputs
        if (output.request_index, output.choice_index) == (request_index, choice_index)
        for token_id in output.token_ids
    ]


async def test_requests_together_are_distinguished_by_index(start: Starter) -> None:
    """Each output has the index of its request, and each request gets the tokens that it gets alone."""
    async with start.started() as (engine, _):
        async with engine.generate(request("hello"), request("world", n=2), request("x" * 30)) as stream:
            outputs = await read(stream)
        again = await generate(engine, request("world", n=2))
    assert tokens_of(outputs, 0) == sums(b"hello", 8, 0)
    assert tokens_of(outputs, 2) == sums(b"x" * 30, 8, 0)
    for choice_index in range(2):
        assert tokens_of(outputs, 1, choice_index) == tokens_of(again, 0, choice_index)
    assert sum(output.finish_reason is not None for output in outputs) == 4


async def test_requests_together_are_checked_before_any_is_admitted(start: Starter) -> None:
    """The error names the prompt field of the invalid request, and none of the requests runs."""
    async with start.started() as (engine, script):
        with pytest.raises(InvalidRequest) as caught:
            async with engine.generate(request("a"), request("b"), request("", prompt_field="inputs[2]")):
                pass
        assert caught.value.field == "inputs[2]"
        assert engine.stats().num_waiting == 0
    assert script.steps() == []


async def test_requests_together_are_admitted_all_or_none(start: Starter) -> None:
    """They are rejected if the queue has capacity for some of them only. An empty queue accepts any number."""
    async with start.started(max_queue_requests=3) as (engine, script):
        async with engine.generate(*(request(f"{index}", max_tokens=1) for index in range(5))) as stream:
            assert len(await read(stream)) == 5
        script.close_gate()
        async with engine.generate(request("first")) as first:
            await until(script.is_at_gate)
            async with engine.generate(request("second")):
                with pytest.raises(EngineOverloaded) as caught:
                    async with engine.generate(request("third"), request("fourth")):
                        pass
                assert not caught.value.for_all, "a single request is admitted"
                async with engine.generate(request("third")):
                    pass
            script.open_gate()
            await read(first)


async def test_requests_together_end_when_their_reader_leaves(start: Starter) -> None:
    """Leaving ends all of them, queued and running."""
    async with start.started(max_batch_sequences=2) as (engine, _):
        endless = [request(f"{index}", max_tokens=None, ignore_eos=True) for index in range(4)]
        async with engine.generate(*endless) as stream:
            await anext(stream)
        await until(lambda: is_idle(engine))


async def test_error_of_one_of_the_requests_together_ends_all(start: Starter) -> None:
    """An error of one sequence ends the stream, and with it the other requests."""
    async with start.started("x", ends=False, max_model_len=1000, num_blocks=500) as (engine, script):
        endless = [request(f"{index}", max_tokens=None) for index in range(3)]
        async with engine.generate(*endless) as stream:
            await anext(stream)
            script.fail_sequence(1)
            with pytest.raises(SequenceError):
                await read(stream)
        await until(lambda: is_idle(engine))
