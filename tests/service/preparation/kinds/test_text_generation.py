"""Whole text generations: the engine's request for a raw prompt, and the events of its outputs. Times are made up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import pytest
from sluice.v1 import chat_pb2, sampling_pb2, serving_pb2, text_generation_pb2

from service.answering.kind import TEXT_GENERATION
from service.generation.errors import PromptTooLong
from service.generation.outputs.output import FinishReason, GenerationOutput, Timings
from service.generation.requests.request import GenerationRequest
from service.prompting.preparation import Preparation
from service.prompts.preparing.workers import WorkerLimits, Workers
from tests.engine.byte_tokenizer import ByteTokenizer
from tests.service.preparation.fakes import Exchange, exchange

Text: TypeAlias = Exchange[
    text_generation_pb2.GenerateTextRequest,
    text_generation_pb2.StreamGenerateTextResponse,
    text_generation_pb2.GenerateTextResponse,
]


@pytest.fixture
async def plain() -> AsyncIterator[Preparation]:
    """Yield the preparation of a model whose tokens are bytes, with a context of 64."""
    preparation = Preparation("m", ByteTokenizer(), 64, None, Workers(WorkerLimits()))
    yield preparation
    preparation.close()


async def text_of(preparation: Preparation, text: str = "hello", **fields: Any) -> Text:
    request = text_generation_pb2.GenerateTextRequest(model="m", text_input=text, **fields)
    return await exchange(preparation, TEXT_GENERATION, request)


def generation_of(text: Text) -> GenerationRequest:
    (generation,) = text.prepared.requests
    return generation


def output(text: str, *instants: float, reason: FinishReason | None = None, **fields: Any) -> GenerationOutput:
    """Return one output: arrived at 1, scheduled at 2, first token at 4."""
    finished = instants[-1] if reason and instants else None
    return GenerationOutput(
        choice_index=0,
        token_ids=[0] * len(instants),
        token_times=instants,
        text=text,
        timings=Timings(1.0, 2.0, 4.0, finished),
        batch_size=fields.pop("batch_size", 1),
        finish_reason=reason,
        **fields,
    )


def seconds(timings: text_generation_pb2.GenerationTimings) -> tuple[float, ...]:
    """Return queue wait, time to first token and decode time."""
    expected = (timings.queue_wait, timings.first_token, timings.decode)
    return tuple(each.ToNanoseconds() / 1e9 for each in expected)


async def test_engine_request_has_tokens_limits_and_serving_options(plain: Preparation) -> None:
    """The request has the tokens, the limits and the serving options; the seed is the client's."""
    text = await text_of(
        plain,
        do_sample=True,
        sampling=sampling_pb2.SamplingParams(temperature=0.5, seed=7, watermark=True),
        stopping=sampling_pb2.StopParams(stop=["x"], ignore_eos=True),
        serving=serving_pb2.ServingOptions(priority=3, cache_salt="s"),
    )
    generation = generation_of(text)
    assert generation.prompt_token_ids == list(b"hello")
    assert (generation.sampling.temperature, generation.sampling.seed, generation.sampling.watermark) == (0.5, 7, True)
    assert (generation.stopping.max_tokens, generation.stopping.stop) == (20, ("x",))
    assert (generation.stopping.ignore_eos, generation.priority, generation.cache_salt) == (True, 3, "s")
    assert generation.skip_special_tokens


async def test_too_long_prompt_is_rejected_by_field(plain: Preparation) -> None:
    """A prompt must leave one token for the answer."""
    assert len(generation_of(await text_of(plain, "x" * 63)).prompt_token_ids) == 63
    with pytest.raises(PromptTooLong) as caught:
        await text_of(plain, "x" * 64)
    assert (caught.value.field, caught.value.num_prompt_tokens, caught.value.max_prompt_tokens) == (
        "text_input",
        64,
        63,
    )


async def test_events_have_the_times_of_their_outputs(plain: Preparation) -> None:
    """Times are counted from the arrival, or from the first token; several tokens may come at once."""
    text = await text_of(plain, perf_stat=True)
    events = text.stream(
        [
            output("a", 4.0),
            output("", 4.5, batch_size=3),
            output("bc", 5.0, 5.25, reason=FinishReason.LENGTH, num_cached_tokens=4),
        ]
    )
    kinds = [event.WhichOneof("event") for event in events]
    assert kinds == ["started", "delta", "delta", "delta", "finished", "usage", "completed"]
    assert (events[0].started.id, events[0].started.model_version) == ("i", "3")
    deltas = [event.delta for event in events[1:4]]
    assert [(delta.text, delta.num_generated_tokens) for delta in deltas] == [("a", 1), ("", 2), ("bc", 4)]
    assert [seconds(delta.timings) for delta in deltas] == [(1, 3, 0), (1, 3, 0.5), (1, 3, 1.25)]
    assert [delta.timings.batch_size for delta in deltas] == [1, 3, 1]
    finished = events[4].finished
    assert [each.ToNanoseconds() / 1e9 for each in finished.timings.tokens] == [3, 0.5, 0.5, 0.25]
    assert finished.finish_reason == chat_pb2.FINISH_REASON_LENGTH
    assert text.reader.finish_reasons() == [FinishReason.LENGTH]
    usage = events[5].usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) == (5, 4, 4)


async def test_folded_text_generation_has_the_streams_values(plain: Preparation) -> None:
    """Identity, text, end, timings and usage are the same."""
    outputs = [
        output("a", 4.0),
        output("b", 5.0, reason=FinishReason.STOP_SEQUENCE, stop_sequence="!"),
    ]
    response = (await text_of(plain)).answer(outputs)
    *_, finishing, _, _ = (await text_of(plain)).stream(outputs)
    assert (response.id, response.model, response.model_version, response.text) == ("i", "tiny", "3", "ab")
    assert (response.finish_reason, response.stop_sequence) == (chat_pb2.FINISH_REASON_STOP, "!")
    assert response.timings == finishing.finished.timings
    assert response.num_generated_tokens == response.usage.completion_tokens == 2


async def test_answer_without_tokens_has_only_the_queue_wait(plain: Preparation) -> None:
    """An end without any token has only the queue wait."""
    text = await text_of(plain, perf_stat=True)
    none = GenerationOutput(0, (), (), "", Timings(1.0, None, None, 3.0), 0, finish_reason=FinishReason.LENGTH)
    (event,) = text.messages([none])
    assert event.finished.num_generated_tokens == 0
    timings = event.finished.timings
    assert not any(timings.HasField(name) for name in ("queue_wait", "first_token", "decode"))
    assert not timings.tokens
