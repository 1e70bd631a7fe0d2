"""ChatService on a real server: the order of a stream, its fold, and cancellation."""

import asyncio

import grpc
import pytest
from grpc import aio
from sluice.v1 import chat_pb2, chat_pb2_grpc, serving_pb2

from service.generation.errors import PromptTooLong
from tests.engine.fakes import until
from tests.service.cancellation import check_cancellation
from tests.service.chat_events import kinds_of, text_of
from tests.service.deadlines import answered_before_deadline, rejection_at_deadline
from tests.service.fakes import ENDLESS, ScriptedRunner, rejection_of, request, rest_of, running


async def test_stream_chat_sends_events_in_order_and_numbers_them() -> None:
    """A stream is `started`, deltas and an end per choice, one `usage` and one `completed`, numbered from 0 by one."""
    async with running(ScriptedRunner("hello", "you")) as run:
        events = [event async for event in run.chat.StreamChat(request(n=2))]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = kinds_of(events)
    assert kinds[0] == "started"
    assert kinds[-2:] == ["usage", "completed"]
    assert set(kinds[1:-2]) == {"content_delta", "choice_finished"}
    assert text_of(events) == "hello"
    assert [event.usage.completion_tokens for event in events if event.HasField("usage")] == [
        len("hello") + len("you") + 2
    ]
    assert events[0].started.model == "scripted"
    assert events[0].started.system_fingerprint == "fp"
    assert events[0].started.sampling.seed == 1
    assert [events[0].started.prompt_tokens] == [e.usage.prompt_tokens for e in events if e.HasField("usage")] != [0]


async def test_chat_is_the_fold_of_its_stream() -> None:
    """The whole answer has the texts, finish reasons and usage of the stream."""
    async with running(ScriptedRunner("hello", "you")) as run:
        response: chat_pb2.ChatResponse = await run.chat.Chat(request(n=2))
    assert {choice.index: choice.message.content[0].text for choice in response.choices} == {0: "hello", 1: "you"}
    assert {choice.finish_reason for choice in response.choices} == {chat_pb2.FINISH_REASON_STOP}
    assert response.usage.completion_tokens == len("hello") + len("you") + 2


async def test_chats_of_two_callers_run_concurrently() -> None:
    """Two concurrent streams both end with their full text, and everything is released."""
    async with running(ScriptedRunner("a longer answer")) as run:

        async def read() -> str:
            return text_of([event async for event in run.chat.StreamChat(request())])

        assert list(await asyncio.gather(read(), read())) == ["a longer answer"] * 2
        await run.until_idle()


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("method", ["Chat", "StreamChat"])
async def test_cancelled_chat_releases_everything(method: str, moment: str) -> None:
    """After a cancellation before or after the first token, streamed or not, everything is released."""
    await check_cancellation(lambda run: getattr(run.chat, method)(request()), moment)


@pytest.mark.parametrize("method", ["Chat", "StreamChat"])
async def test_chat_ends_at_the_callers_deadline(method: str) -> None:
    """The call ends with DEADLINE_EXCEEDED, and its generation stops."""
    async with running(ScriptedRunner("endless ", end=False), engine=ENDLESS) as run:
        call = getattr(run.chat, method)
        rejection = await rejection_at_deadline(
            lambda left_s: call(request(), timeout=left_s), run.runner.entered.is_set
        )
        assert rejection.code is grpc.StatusCode.DEADLINE_EXCEEDED
        await run.until_idle()


@pytest.mark.slow
async def test_truncating_chat_completes_before_its_deadline() -> None:
    """The answer has the text generated so far, ends with LENGTH, and arrives before gRPC ends the call."""
    runner = ScriptedRunner("endless ", end=False)
    runner.delay_s = 0.02  # leaves the event loop enough time
    async with running(runner, engine=ENDLESS) as run:
        serving = serving_pb2.ServingOptions(error_behavior=serving_pb2.ERROR_BEHAVIOR_TRUNCATE)

        async def events_within(left_s: float) -> list[chat_pb2.StreamChatResponse]:
            return [event async for event in run.chat.StreamChat(request(serving=serving), timeout=left_s)]

        events = await answered_before_deadline(events_within)
        await run.until_idle()
    assert text_of(events).startswith("endless ")
    (end,) = [event.choice_finished for event in events if event.HasField("choice_finished")]
    assert end.finish_reason == chat_pb2.FINISH_REASON_LENGTH
    assert kinds_of(events)[-2:] == ["usage", "completed"]


async def test_stream_chat_sends_usage_before_an_error() -> None:
    """A failed generation sends the usage so far and then the status, without `completed`."""
    runner = ScriptedRunner("hello", end=False)
    async with running(runner, engine=ENDLESS) as run:
        call = run.chat.StreamChat(request())
        while not (await call.read()).HasField("content_delta"):
            pass
        runner.fail_with = RuntimeError("secret words of the engine")
        rejection = await rejection_of(call)
    assert rejection.code is grpc.StatusCode.INTERNAL
    assert kinds_of(rejection.events)[-1] == "usage"
    assert rejection.events[-1].usage.completion_tokens > 0
    assert "secret" not in rejection.text


async def test_stream_chat_rejected_before_admission_sends_no_event() -> None:
    """A call that fails before its admission to the engine sends only a status."""
    async with running() as run:
        run.preparation.fail_with = PromptTooLong("messages", 9, 8)
        rejection = await rejection_of(run.chat.StreamChat(request()))
    assert rejection.events == []
    assert rejection.fields == [("messages", "PROMPT_TOO_LONG")]


@pytest.mark.slow
async def test_stream_chat_merges_for_a_slow_reader() -> None:
    """A client that stops reading gets fewer, longer events, and the full text."""
    text = "x" * 6_000
    sizes = {"max_model_len": 7_000, "num_blocks": 2_000}
    options = [("grpc.http2.bdp_probe", 0)]  # the window stays at 64 KiB, so that the writer soon has to wait
    async with (
        running(ScriptedRunner(text), engine=sizes) as run,
        aio.insecure_channel(f"127.0.0.1:{run.port}", options=options) as channel,
    ):
        call = chat_pb2_grpc.ChatServiceStub(channel).StreamChat(request())
        await call.read()
        await until(lambda: run.engine.stats().num_generated_tokens == len(text) + 1)
        events = [event async for event in rest_of(call)]
    assert text_of(events) == text
    assert len(events) < len(text)


async def test_an_unstreamed_answer_above_the_message_limit_is_rejected() -> None:
    """A rejected answer releases its resources; as a stream, the same request succeeds."""
    words = ["words " * 9] * 4
    async with running(ScriptedRunner(*words), max_response_bytes=250) as run:
        rejection = await rejection_of(run.chat.Chat(request(n=4)))
        assert rejection.code is grpc.StatusCode.INVALID_ARGUMENT
        assert rejection.text.startswith("logprobs: the answer has more than 250 bytes, which is the limit;")
        await run.until_idle()
        events = [event async for event in run.chat.StreamChat(request(n=4))]
    assert kinds_of(events)[-1] == "completed"
