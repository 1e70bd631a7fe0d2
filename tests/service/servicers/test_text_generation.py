"""TextGenerationService on a real server: the stream and its fold, the timings, and cancellation."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import grpc
import pytest
from google.protobuf import duration_pb2
from sluice.v1 import chat_pb2, sampling_pb2, serving_pb2, text_generation_pb2, text_generation_pb2_grpc

from service.generation.caller import ANONYMOUS
from tests.engine.fakes import until
from tests.service.cancellation import check_cancellation
from tests.service.chat_events import kinds_of
from tests.service.deadlines import answered_before_deadline, rejection_at_deadline
from tests.service.fakes import ENDLESS, MODEL, Running, ScriptedRunner, rejection_of, running

METHODS = ["GenerateText", "StreamGenerateText"]
TRUNCATE = serving_pb2.ServingOptions(error_behavior=serving_pb2.ERROR_BEHAVIOR_TRUNCATE)


def text_request(text: str = "hi", **fields: Any) -> text_generation_pb2.GenerateTextRequest:
    """Return a valid request."""
    return text_generation_pb2.GenerateTextRequest(**{"model": MODEL, "text_input": text, **fields})


def stub_of(run: Running) -> Any:
    return text_generation_pb2_grpc.TextGenerationServiceStub(run.channel)


def seconds(duration: duration_pb2.Duration) -> float:
    return duration.ToNanoseconds() / 1e9


async def test_stream_sends_events_in_order_and_numbers_them() -> None:
    """A stream is `started` with the effective values, deltas, `finished`, `usage` and `completed`, numbered from 0."""
    async with running(ScriptedRunner("hello")) as run:
        events = [event async for event in stub_of(run).StreamGenerateText(text_request())]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert kinds_of(events) == ["started", "delta", "finished", "usage", "completed"]
    started = events[0].started
    assert (started.model, started.stopping.max_tokens, started.sampling.temperature) == (MODEL, 20, 0)
    assert "".join(event.delta.text for event in events) == "hello"
    (finished,) = [event.finished for event in events if event.HasField("finished")]
    assert (finished.finish_reason, finished.num_generated_tokens) == (chat_pb2.FINISH_REASON_STOP, len("hello") + 1)
    (usage,) = [event.usage for event in events if event.HasField("usage")]
    assert (usage.prompt_tokens, usage.completion_tokens) == (len("hi"), len("hello") + 1)


async def test_unstreamed_text_is_the_fold_of_its_stream() -> None:
    """The answer has the text, finish reason, counts and timings of a stream, and a separate id."""
    async with running(ScriptedRunner("hello")) as run:
        request = text_request(perf_stat=True)
        events = [event async for event in stub_of(run).StreamGenerateText(request)]
        response = await stub_of(run).GenerateText(request)
    (finished,) = [event.finished for event in events if event.HasField("finished")]
    assert (response.model, response.text) == (MODEL, "hello")
    assert (response.finish_reason, response.num_generated_tokens) == (
        finished.finish_reason,
        finished.num_generated_tokens,
    )
    assert len(response.timings.tokens) == len(finished.timings.tokens) == len("hello") + 1
    assert response.usage.completion_tokens == len("hello") + 1
    assert response.id
    assert response.id != events[0].started.id


@pytest.mark.parametrize(
    ("stopping", "num_tokens"),
    [({}, 20), ({"max_tokens": 3}, 3), ({"max_tokens": 100_000}, 126), ({"stop": ["less"]}, 7)],
)
async def test_text_ends_at_its_limit_or_stop_string(stopping: dict[str, Any], num_tokens: int) -> None:
    """The default is 20 tokens; the limit is reduced to the context of 128; a stop string ends the text earlier."""
    async with running(ScriptedRunner("endless ", end=False)) as run:
        response = await stub_of(run).GenerateText(text_request(stopping=sampling_pb2.StopParams(**stopping)))
    assert response.num_generated_tokens == num_tokens
    is_stopped = "stop" in stopping
    assert response.finish_reason == (chat_pb2.FINISH_REASON_STOP if is_stopped else chat_pb2.FINISH_REASON_LENGTH)
    assert response.stop_sequence == ("less" if is_stopped else "")
    assert response.text == ("end" if is_stopped else ("endless " * 20)[:num_tokens])


async def test_timings_are_measured_by_the_engine() -> None:
    """Each token is timed from the previous one, the first from arrival; only the end lists the times per token."""
    runner = ScriptedRunner("hello")
    runner.delay_s = 0.01
    async with running(runner) as run:
        events = [event async for event in stub_of(run).StreamGenerateText(text_request(perf_stat=True))]
    deltas = [event.delta for event in events if event.HasField("delta")]
    (finished,) = [event.finished for event in events if event.HasField("finished")]
    assert not any(delta.timings.tokens for delta in deltas)
    last = finished.timings
    assert 0 < seconds(last.queue_wait) <= seconds(last.first_token) - runner.delay_s
    assert all(seconds(each) >= runner.delay_s for each in last.tokens)
    assert last.tokens[0] == last.first_token
    assert sum(map(seconds, last.tokens[1:])) == pytest.approx(seconds(last.decode), abs=1e-6)
    assert {(seconds(each.timings.queue_wait), seconds(each.timings.first_token)) for each in [*deltas, finished]} == {
        (seconds(last.queue_wait), seconds(last.first_token))
    }
    decodes = [seconds(each.timings.decode) for each in [*deltas, finished]]
    assert decodes == sorted(decodes)
    assert [delta.num_generated_tokens for delta in deltas] == sorted(delta.num_generated_tokens for delta in deltas)


async def test_timings_without_perf_stat_have_no_times_per_token() -> None:
    """The list of times per token is returned only if requested."""
    async with running() as run:
        response = await stub_of(run).GenerateText(text_request())
    assert not response.timings.tokens
    assert response.timings.batch_size == 1


async def test_batch_size_is_that_of_the_last_tokens_step() -> None:
    """A text that is generated together with another one has steps of two."""
    runner = ScriptedRunner("endless ", end=False)
    async with running(runner, engine=ENDLESS) as run:
        other = stub_of(run).StreamGenerateText(text_request(stopping=sampling_pb2.StopParams(max_tokens=900_000)))
        await until(lambda: run.engine.stats().num_running == 1)
        response = await stub_of(run).GenerateText(text_request())
        assert response.timings.batch_size == 2
        other.cancel()
        await run.until_idle()


async def test_queue_wait_is_the_time_of_the_previous_request() -> None:
    """With one slot in the batch, the second request waits for the end of the first."""
    runner = ScriptedRunner("hello")
    async with running(runner, engine={"max_batch_sequences": 1}) as run:
        with runner.paused():
            first = stub_of(run).GenerateText(text_request())
            await until(runner.entered.is_set)
            second = stub_of(run).GenerateText(text_request())
            await until(lambda: run.engine.num_open == 2)
            began = time.monotonic()
            await asyncio.sleep(0.05)
            waited_s = time.monotonic() - began
        waits = [seconds((await call).timings.queue_wait) for call in (first, second)]
    assert waits[1] >= waited_s


async def test_sampling_is_greedy_without_do_sample() -> None:
    """Without do_sample, all sampling parameters are off, as the first event shows; with it, the given values apply."""
    sampling = sampling_pb2.SamplingParams(temperature=1.5, top_k=5, top_p=0.5, repetition_penalty=1.2)
    async with running() as run:
        stub = stub_of(run)
        greedy = (await stub.StreamGenerateText(text_request(sampling=sampling)).read()).started.sampling
        drawn = (await stub.StreamGenerateText(text_request(sampling=sampling, do_sample=True)).read()).started.sampling
    assert (greedy.temperature, greedy.top_p, greedy.HasField("top_k")) == (0, 1, False)
    assert greedy.repetition_penalty == drawn.repetition_penalty == pytest.approx(1.2)
    assert (drawn.temperature, drawn.top_p, drawn.top_k) == (1.5, 0.5, 5)


@pytest.mark.parametrize("method", METHODS)
async def test_unknown_model_version_is_not_found(method: str) -> None:
    """A request for the served version, or for none, succeeds; another version is NOT_FOUND with both versions."""
    async with running() as run:
        served = run.server.registry.visible_to(ANONYMOUS).generator(MODEL)
        run.server.registry.add(replace(served, description=replace(served.description, version="3")))
        for version in ("3", ""):
            response = await stub_of(run).GenerateText(text_request(model_version=version))
            assert response.model_version == "3"
        rejection = await rejection_of(getattr(stub_of(run), method)(text_request(model_version="2")))
    assert (rejection.code, rejection.info.reason) == (grpc.StatusCode.NOT_FOUND, "VERSION_NOT_FOUND")
    assert dict(rejection.info.metadata) == {"model": MODEL, "version": "2"}


BAD: list[tuple[dict[str, Any], tuple[str, str]]] = [
    ({"model": ""}, ("model", "string.min_len")),
    ({"model_version": "v" * 65}, ("model_version", "string.max_len")),
    ({"text": ""}, ("text_input", "string.min_len")),
    ({"text": "x" * 524_289}, ("text_input", "string.max_len")),
    ({"text": "x" * 128}, ("text_input", "PROMPT_TOO_LONG")),
    ({"sampling": sampling_pb2.SamplingParams(top_p=0)}, ("sampling.top_p", "float.gt_lte")),
    ({"sampling": sampling_pb2.SamplingParams(logit_bias={999: 1})}, ("sampling.logit_bias[999]", "INVALID_FIELD")),
    ({"stopping": sampling_pb2.StopParams(max_tokens=0)}, ("stopping.max_tokens", "uint32.gte")),
    ({"stopping": sampling_pb2.StopParams(min_tokens=21)}, ("stopping.min_tokens", "INVALID_FIELD")),
    ({"stopping": sampling_pb2.StopParams(stop_token_ids=[999])}, ("stopping.stop_token_ids[0]", "INVALID_FIELD")),
    ({"serving": serving_pb2.ServingOptions(priority=101)}, ("serving.priority", "int32.gte_lte")),
]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("fields", "violation"), BAD, ids=[violation[0] for _, violation in BAD])
async def test_invalid_input_is_rejected_by_field(
    method: str, fields: dict[str, Any], violation: tuple[str, str]
) -> None:
    """The error is INVALID_ARGUMENT with the field and the rule, before anything is generated."""
    async with running() as run:
        rejection = await rejection_of(getattr(stub_of(run), method)(text_request(**fields)))
        assert (rejection.code, rejection.fields) == (grpc.StatusCode.INVALID_ARGUMENT, [violation])
        assert rejection.events == []
        assert run.engine.stats().num_generated_tokens == 0


async def test_truncate_cuts_the_beginning_of_a_long_prompt() -> None:
    """With TRUNCATE, the prompt is cut so that max_tokens fit into the context of 128 tokens."""
    async with running(ScriptedRunner("endless ", end=False)) as run:
        response = await stub_of(run).GenerateText(text_request("x" * 500, serving=TRUNCATE))
    assert (response.usage.prompt_tokens, response.usage.completion_tokens) == (108, 20)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("method", METHODS)
async def test_cancelled_text_generation_releases_everything(method: str, moment: str) -> None:
    """After a cancellation before or after the first token, streamed or not, everything is released."""
    request = text_request(stopping=sampling_pb2.StopParams(max_tokens=900_000))
    await check_cancellation(lambda run: getattr(stub_of(run), method)(request), moment)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
async def test_text_generation_ends_at_the_callers_deadline(method: str) -> None:
    """The call ends with DEADLINE_EXCEEDED and its generation stops; with TRUNCATE, the text so far ends by LENGTH."""
    stopping = sampling_pb2.StopParams(max_tokens=900_000)
    async with running(ScriptedRunner("endless ", end=False), engine=ENDLESS) as run:
        call, message = getattr(stub_of(run), method), text_request(stopping=stopping)
        rejection = await rejection_at_deadline(lambda left_s: call(message, timeout=left_s), run.runner.entered.is_set)
        assert rejection.code is grpc.StatusCode.DEADLINE_EXCEEDED
        await run.until_idle()
        run.runner.delay_s = 0.02  # leaves the event loop enough time
        message = text_request(stopping=stopping, serving=TRUNCATE)
        whole = await answered_before_deadline(lambda left_s: stub_of(run).GenerateText(message, timeout=left_s))
        assert whole.finish_reason == chat_pb2.FINISH_REASON_LENGTH
        assert whole.text.startswith("endless ")
        await run.until_idle()


async def test_text_generation_above_the_drain_timeout_sends_usage_and_unavailable() -> None:
    """The call ends with UNAVAILABLE after `usage`, and everything is released."""
    async with running(ScriptedRunner("on and ", end=False), engine=ENDLESS, drain_timeout_s=0.05) as run:
        request = text_request(stopping=sampling_pb2.StopParams(max_tokens=900_000))
        endless = stub_of(run).StreamGenerateText(request)
        await endless.read()
        await until(lambda: run.engine.stats().num_generated_tokens > 0)
        await run.server.drain()
        rejection = await rejection_of(endless)
        await run.until_idle()
    assert (rejection.code, rejection.info.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
    assert kinds_of(rejection.events)[-1] == "usage"


@pytest.mark.parametrize(("salts", "num_cached"), [(("", ""), 8), (("a", "a"), 8), (("a", "b"), 0), (("", "a"), 0)])
async def test_cached_tokens_are_counted_only_with_the_same_salt(salts: tuple[str, str], num_cached: int) -> None:
    """A repeated prompt is found in the cache, in whole blocks of 4, but not under another salt."""
    async with running() as run:
        for salt in salts:
            serving = serving_pb2.ServingOptions(cache_salt=salt)
            response = await stub_of(run).GenerateText(text_request("ten tokens", serving=serving))
        stats = run.engine.stats()
    assert response.usage.cached_tokens == num_cached
    assert (stats.num_prefix_query_tokens, stats.num_prefix_hit_tokens) == (20, num_cached)


async def test_text_is_recorded_in_telemetry_like_a_chat() -> None:
    """The span has request, answer, usage and stages; the text is recorded only if the operator enables it."""
    for captures in (False, True):
        async with running(capture_content=captures) as run:
            await stub_of(run).GenerateText(text_request("tulip"))
            spans = await run.ended_spans(5)
        found = dict(spans[f"text_completion {MODEL}"].attributes or {})
        expected = {
            "gen_ai.operation.name": "text_completion",
            "gen_ai.request.model": MODEL,
            "gen_ai.request.max_tokens": 20,
            "gen_ai.request.temperature": 0.0,
            "gen_ai.response.finish_reasons": ("stop",),
            "gen_ai.usage.input_tokens": len("tulip"),
            "gen_ai.usage.output_tokens": len("hello") + 1,
        }
        assert {name: found.get(name) for name in expected} == expected
        assert {"queue", "prefill", "decode"} <= spans.keys()
        assert ("tulip" in str(found.get("gen_ai.input.messages"))) is captures
        assert ("hello" in str(found.get("gen_ai.output.messages"))) is captures
