"""CompletionService on a real server: several prompts per call, the order of a stream, its fold, and cancellation."""

from __future__ import annotations

import json
from typing import Any

import grpc
import pytest
from sluice.v1 import chat_pb2, completion_pb2, completion_pb2_grpc, logprobs_pb2, prompt_pb2, sampling_pb2, serving_pb2

from service.contract.generations.completion_fold import CompletionFold
from tests.engine.byte_tokenizer import END
from tests.engine.fakes import until
from tests.service.cancellation import check_cancellation
from tests.service.chat_events import kinds_of
from tests.service.deadlines import answered_before_deadline, rejection_at_deadline
from tests.service.fakes import ENDLESS, MODEL, Running, ScriptedRunner, rejection_of, running

TRUNCATE = serving_pb2.ServingOptions(error_behavior=serving_pb2.ERROR_BEHAVIOR_TRUNCATE)


def complete(*prompts: str | list[int], **fields: Any) -> completion_pb2.CompleteRequest:
    """Return a valid request; a prompt is a text or tokens."""
    return completion_pb2.CompleteRequest(
        **{
            "model": MODEL,
            "prompts": [
                prompt_pb2.Prompt(text=prompt)
                if isinstance(prompt, str)
                else prompt_pb2.Prompt(token_ids=prompt_pb2.TokenIds(ids=prompt))
                for prompt in prompts or ("hi",)
            ],
            **fields,
        }
    )


def stub(run: Running) -> Any:
    return completion_pb2_grpc.CompletionServiceStub(run.channel)


def fold(events: list[completion_pb2.StreamCompleteResponse]) -> completion_pb2.CompleteResponse:
    folding = CompletionFold()
    for event in events:
        folding.add(event)
    return folding.response


async def test_stream_complete_sends_events_in_order_and_numbers_them() -> None:
    """A stream is `started`, deltas and an end per choice, one `usage` and one `completed`, numbered from 0 by one."""
    async with running(ScriptedRunner("hello", "you")) as run:
        events = [event async for event in stub(run).StreamComplete(complete("a", "bc", n=2))]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = kinds_of(events)
    assert kinds[0] == "started"
    assert kinds[-2:] == ["usage", "completed"]
    assert set(kinds[1:-2]) == {"delta", "choice_finished"}
    started = events[0].started
    assert (started.model, started.system_fingerprint, started.n) == (MODEL, "fp", 2)
    assert started.sampling.HasField("seed")
    ends = [event.choice_finished for event in events if event.HasField("choice_finished")]
    assert sorted(end.choice_index for end in ends) == [0, 1, 2, 3]


@pytest.mark.parametrize("method", ["Complete", "StreamComplete"])
async def test_prompts_are_continued_independently(method: str) -> None:
    """The index of a choice identifies its prompt.

    Texts and tokens are both accepted, and each prompt is counted once.
    """
    request = complete("a", list(b"bcd"), n=2, echo=True, suffix="!")
    async with running(ScriptedRunner("hello", "you")) as run:
        if method == "Complete":
            response = await stub(run).Complete(request)
        else:
            response = fold([event async for event in stub(run).StreamComplete(request)])
        await run.until_idle()
    assert [choice.text for choice in response.choices] == ["ahello!", "ayou!", "bcdhello!", "bcdyou!"]
    assert [choice.index for choice in response.choices] == [0, 1, 2, 3]
    assert [choice.prompt_index for choice in response.choices] == [0, 0, 1, 1]
    assert {choice.finish_reason for choice in response.choices} == {chat_pb2.FINISH_REASON_STOP}
    assert response.usage.prompt_tokens == len("abcd")
    assert response.usage.completion_tokens == 2 * (len("hello") + len("you") + 2)


@pytest.mark.parametrize("method", ["Complete", "StreamComplete"])
async def test_prompt_only_completion_returns_prompt_logprobs(method: str) -> None:
    """The choice is the prompt with its logprobs; generated tokens are not returned, regardless of `stopping`."""
    request = complete(
        "ab", n=2, echo=True, prompt_only=True, logprobs=logprobs_pb2.LogprobsOptions(),
        stopping=sampling_pb2.StopParams(min_tokens=4),
    )  # fmt: skip
    async with running(ScriptedRunner("hello", "you")) as run:
        if method == "Complete":
            response = await stub(run).Complete(request)
        else:
            response = fold([event async for event in stub(run).StreamComplete(request)])
        await run.until_idle()
    assert [choice.text for choice in response.choices] == ["ab", "ab"]
    assert [choice.finish_reason for choice in response.choices] == [chat_pb2.FINISH_REASON_LENGTH] * 2
    assert [len(choice.logprobs) for choice in response.choices] == [0, 0]
    assert (response.usage.prompt_tokens, response.usage.completion_tokens) == (2, 0)


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (complete("a", "b", [END, 300, 1]), "prompts[2].token_ids.ids[1]"),
        (complete("a", ""), "prompts[1]"),
        (complete("a", "x" * 200), "prompts[1]"),
        (complete("a", list(b"x" * 200)), "prompts[1]"),
        (complete(n=100), "n"),
        (complete("a", stopping=sampling_pb2.StopParams(stop_token_ids=[300])), "stopping.stop_token_ids[0]"),
        (complete("a", sampling=sampling_pb2.SamplingParams(logit_bias={300: 1})), "sampling.logit_bias[300]"),
        (complete(*["a"] * 11, n=100), "n"),
        (completion_pb2.CompleteRequest(model=MODEL), "prompts"),
        (completion_pb2.CompleteRequest(model=MODEL, prompts=[prompt_pb2.Prompt()]), "prompts[0].prompt"),
        (complete("a", suffix="x" * 65_537), "suffix"),
        (complete("a", prompt_only=True), "prompt_only"),
        (complete("a", serving=serving_pb2.ServingOptions(priority=101)), "serving.priority"),
    ],
)
async def test_invalid_prompt_fails_the_call_before_any_prompt_runs(
    request_: completion_pb2.CompleteRequest, field: str
) -> None:
    """All prompts are checked before one is admitted; the error names the invalid one, and no prompt is run."""
    async with running() as run:
        rejection = await rejection_of(stub(run).StreamComplete(request_))
        assert run.engine.stats().num_steps == 0
    assert rejection.code is grpc.StatusCode.INVALID_ARGUMENT
    assert [name for name, _ in rejection.fields] == [field]
    assert rejection.events == []


async def test_complete_of_an_unknown_model_is_not_found() -> None:
    """The call ends with NOT_FOUND."""
    async with running() as run:
        rejection = await rejection_of(stub(run).Complete(complete(model="other")))
    assert rejection.code is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("method", ["Complete", "StreamComplete"])
async def test_cancelled_completion_releases_everything(method: str, moment: str) -> None:
    """After a cancellation before or after the first token, streamed or not, all prompts end and are released."""
    await check_cancellation(lambda run: getattr(stub(run), method)(complete("a", "b", "c", n=2)), moment)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["Complete", "StreamComplete"])
async def test_completion_ends_at_the_callers_deadline(method: str) -> None:
    """The call ends with DEADLINE_EXCEEDED, and its generation stops."""
    async with running(ScriptedRunner("endless ", end=False), engine=ENDLESS) as run:
        call = getattr(stub(run), method)
        rejection = await rejection_at_deadline(
            lambda left_s: call(complete("a", "b"), timeout=left_s), run.runner.entered.is_set
        )
        assert rejection.code is grpc.StatusCode.DEADLINE_EXCEEDED
        await run.until_idle()


@pytest.mark.slow
async def test_truncating_completion_completes_before_its_deadline() -> None:
    """Every choice has the text generated so far and ends with LENGTH; usage follows, and the call succeeds."""
    runner = ScriptedRunner("endless ", end=False)
    runner.delay_s = 0.02  # leaves the event loop enough time
    async with running(runner, engine=ENDLESS) as run:
        message = complete("a", "b", serving=TRUNCATE)
        response = await answered_before_deadline(lambda left_s: stub(run).Complete(message, timeout=left_s))
        await run.until_idle()
    assert [choice.finish_reason for choice in response.choices] == [chat_pb2.FINISH_REASON_LENGTH] * 2
    assert all(choice.text.startswith("endless ") for choice in response.choices)
    assert response.usage.completion_tokens == sum(len(choice.text) for choice in response.choices)


async def test_truncating_completion_cuts_its_prompt() -> None:
    """A prompt longer than the context loses its beginning; the echo is the original prompt."""
    async with running() as run:
        request = complete("x" * 200, list(b"y" * 300), serving=TRUNCATE, echo=True)
        request.stopping.max_tokens = 28
        response = await stub(run).Complete(request)
    assert [choice.text for choice in response.choices] == ["x" * 200 + "hello", "y" * 300 + "hello"]
    assert response.usage.prompt_tokens == 2 * (128 - 28)


async def test_draining_server_rejects_completions() -> None:
    """A server that is shutting down rejects calls with UNAVAILABLE and a retry delay."""
    async with running() as run:
        await run.server.drain()
        rejection = await rejection_of(stub(run).Complete(complete()))
    assert (rejection.code, rejection.info.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")


async def test_stream_complete_sends_usage_before_an_error() -> None:
    """A failed generation sends the usage so far and then the status, without `completed`."""
    runner = ScriptedRunner("hello", end=False)
    async with running(runner, engine=ENDLESS) as run:
        call = stub(run).StreamComplete(complete("a", "b"))
        while not (await call.read()).HasField("delta"):
            pass
        runner.fail_with = RuntimeError("secret words of the engine")
        rejection = await rejection_of(call)
    assert rejection.code is grpc.StatusCode.INTERNAL
    last: Any = rejection.events[-1]
    assert last.usage.prompt_tokens == 2
    assert last.usage.completion_tokens > 0


async def test_completion_is_observed() -> None:
    """Span, histograms and log fields have the operation `text_completion`; the prompts are not on the span."""
    async with running(ScriptedRunner("hello", "you")) as run:
        request = complete("tulip", "rose", n=2, logprobs=logprobs_pb2.LogprobsOptions())
        request.sampling.seed = 7
        response = await stub(run).Complete(request)
        await until(lambda: any(span.name == f"text_completion {MODEL}" for span in run.spans.get_finished_spans()))
        (span,) = [span for span in run.spans.get_finished_spans() if span.name == f"text_completion {MODEL}"]
        assert "tulip" not in "".join(each.to_json() for each in run.spans.get_finished_spans())
    found = dict(span.attributes or {})
    expected = {
        "gen_ai.operation.name": "text_completion",
        "gen_ai.request.choice.count": 4,
        "gen_ai.request.seed": 7,
        "gen_ai.response.id": response.id,
        "gen_ai.response.finish_reasons": ("stop",) * 4,
        "gen_ai.usage.input_tokens": len("tuliprose"),
        "gen_ai.usage.output_tokens": 2 * (len("hello") + len("you") + 2),
    }
    assert {name: found.get(name) for name in expected} == expected


async def test_completion_span_has_content_with_capture_content() -> None:
    """With `capture_content`, prompts are recorded as user messages and continuations as assistant messages."""
    async with running(capture_content=True) as run:
        await stub(run).Complete(complete("tulip", [97]))
        await until(lambda: any(span.name == f"text_completion {MODEL}" for span in run.spans.get_finished_spans()))
        (span,) = [span for span in run.spans.get_finished_spans() if span.name == f"text_completion {MODEL}"]
    found: Any = span.attributes
    assert json.loads(found["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "tulip"}]},
        {"role": "user", "parts": [{"type": "token_ids", "content": [97]}]},
    ]
    answer = {"role": "assistant", "parts": [{"type": "text", "content": "hello"}], "finish_reason": "stop"}
    assert json.loads(found["gen_ai.output.messages"]) == [answer, answer]
