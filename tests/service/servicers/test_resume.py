"""Broken streams that are resumed, on a real server with a scripted model."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from sluice.v1 import chat_pb2, resume_pb2, sampling_pb2, serving_pb2

from service.contract.generations.chat_fold import ChatFold
from tests.service.fakes import MODEL, Running, ScriptedRunner, rejection_of, request, running


async def read(run: Running, message: chat_pb2.ChatRequest) -> list[chat_pb2.StreamChatResponse]:
    return [event async for event in run.chat.StreamChat(message)]


def resumed(
    message: chat_pb2.ChatRequest, events: list[chat_pb2.StreamChatResponse], **fields: Any
) -> chat_pb2.ChatRequest:
    """Return the request, resumed after the last of the events."""
    values = {"stream": events[0].stream, "position": events[-1].position} | fields
    number = values.pop("sequence_number", events[-1].sequence_number)
    again = chat_pb2.ChatRequest()
    again.CopyFrom(message)
    again.resume.CopyFrom(resume_pb2.ResumeOptions(sequence_number=number, **values))
    return again


def whole(events: list[chat_pb2.StreamChatResponse]) -> chat_pb2.ChatResponse:
    fold = ChatFold()
    for event in events:
        fold.add(event)
    return fold.response


async def test_stream_resumed_after_any_event_loses_and_repeats_no_event() -> None:
    """With three choices, both parts together equal the stream in id, time, numbers, texts, ends and usage."""
    async with running(ScriptedRunner("hello there", "you", "and a longer one")) as run:
        message = request(n=3, stopping=sampling_pb2.StopParams(stop=["xyz", "ere"]))
        events = await read(run, message)
        for cut in range(1, len(events) + 1):
            rest = await read(run, resumed(message, events[:cut]))
            joined = events[:cut] + rest
            assert [event.sequence_number for event in joined] == list(range(len(joined)))
            assert whole(joined) == whole(events)
            assert joined[-1].HasField("completed")


async def test_stream_with_token_ids_resumes_without_lost_or_repeated_tokens() -> None:
    """Tokens without text are returned too: parts of a character, and tokens that may become a stop string."""
    async with running(ScriptedRunner("h\u00e9llo th\u20acre", "you")) as run:
        message = request(n=2, tokens={"ids": True}, stopping=sampling_pb2.StopParams(stop=["llx", "re!"]))
        events = await read(run, message)
        token_ids = [list(choice.token_ids) for choice in whole(events).choices]
        assert sum(map(len, token_ids)) == whole(events).usage.completion_tokens
        for cut in range(1, len(events) + 1):
            joined = events[:cut] + await read(run, resumed(message, events[:cut]))
            assert [list(choice.token_ids) for choice in whole(joined).choices] == token_ids
            assert [event.sequence_number for event in joined] == list(range(len(joined)))


async def test_stream_with_an_event_per_token_resumes_with_an_event_per_token() -> None:
    """Every piece before and after the break has one token, and none is lost or doubled."""
    async with running(ScriptedRunner("h\u00e9llo th\u20acre", "you")) as run:
        message = request(n=2, tokens={"ids": True}, serving=serving_pb2.ServingOptions(separate_tokens=True))
        events = await read(run, message)
        for cut in range(1, len(events) + 1):
            joined = events[:cut] + await read(run, resumed(message, events[:cut]))
            assert whole(joined) == whole(events)
            assert {event.tokens.num_tokens for event in joined if event.HasField("tokens")} == {1}
            assert [event.sequence_number for event in joined] == list(range(len(joined)))


async def test_resumed_stream_can_be_resumed_again() -> None:
    """A resumed stream can be resumed like the original one, however the outputs are grouped."""
    async with running(ScriptedRunner("hello there", "you")) as run:
        message = request(n=2)
        events = await read(run, message)
        for cut in range(2, len(events) - 2):
            middle = events[:cut] + (await read(run, resumed(message, events[:cut])))[:1]
            joined = middle + await read(run, resumed(message, middle))
            assert whole(joined) == whole(events)


async def test_stream_is_replayed_for_a_client_that_has_lost_it() -> None:
    """With `replay`, the whole stream is sent, and received events have their original numbers."""
    async with running(ScriptedRunner("hello there", "you")) as run:
        message = request(n=2)
        events = await read(run, message)
        for cut in range(1, len(events)):
            again = await read(run, resumed(message, events[:cut], replay=True))
            assert whole(again) == whole(events)
            rest = [event for event in again if event.sequence_number >= cut]
            assert whole(events[:cut] + rest) == whole(events)


async def test_stream_without_a_seed_resumes_with_the_drawn_seed() -> None:
    """The seed is part of `stream`, so that the second part is sampled like the first."""
    async with running() as run:
        message = request()
        events = await read(run, message)
        again = await read(run, resumed(message, events[:1], replay=True))
        assert again[0].started == events[0].started


async def test_resume_with_a_different_request_is_rejected() -> None:
    """Another prompt, other parameters or another number of choices are rejected: the answer would differ."""
    async with running() as run:
        message = request()
        events = await read(run, message)
        others = (
            request("another"),
            request(sampling=sampling_pb2.SamplingParams(temperature=0.5)),
            request(stopping=sampling_pb2.StopParams(max_tokens=3)),
        )
        for other in others:
            rejection = await rejection_of(run.chat.StreamChat(resumed(other, events[:2])))
            assert (rejection.code, rejection.info.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "CANNOT_RESUME")
        same = request(serving=serving_pb2.ServingOptions(priority=3))
        assert await read(run, resumed(same, events[:2]))


async def test_model_without_reproducible_tokens_sends_no_resume_positions() -> None:
    """A model without reproducible tokens sends no resume positions, and rejects those of another server's streams."""
    async with running() as promising, running(supports_resume=False) as run:
        message = request()
        events = await read(promising, message)
        assert all(not event.position and not event.stream for event in await read(run, message))
        rejection = await rejection_of(run.chat.StreamChat(resumed(message, events[:2])))
        assert rejection.info.reason == "CANNOT_RESUME"
        assert "backend" in rejection.text


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"stream": b"x"}, "resume.stream"),
        ({"stream": b"\x01" + b"x" * 60}, "resume.stream"),
        ({"position": b"x"}, "resume.position"),
        ({"position": b"\xff" * 9}, "resume.position"),
        ({"position": bytes([2, 0, 1, 90, 1, 80])}, "resume.position"),  # beyond the end of the answer
        ({"position": bytes([2, 0, 1, 2, 2, 1])}, "resume.position"),  # of a stream with two choices
        ({"position": bytes([2, 0, 2, 2, 1, 1])}, "resume.position"),  # the second choice of a stream with one
        ({"sequence_number": 0}, "resume.sequence_number"),
        ({"position": b""}, "resume.position"),
    ],
)
async def test_invalid_resume_positions_are_rejected(fields: dict[str, Any], field: str) -> None:
    """Invalid bytes are rejected as INVALID_ARGUMENT with the field's name."""
    async with running() as run:
        message = request()
        events = await read(run, message)
        rejection = await rejection_of(run.chat.StreamChat(resumed(message, events[:4], **fields)))
        assert rejection.code == grpc.StatusCode.INVALID_ARGUMENT
        assert rejection.text.startswith(field)
        await run.until_idle()


async def test_unstreamed_call_cannot_be_resumed() -> None:
    async with running() as run:
        message = request()
        events = await read(run, message)
        assert (await rejection_of(run.chat.Chat(resumed(message, events[:2])))).text.startswith("resume")


async def test_usage_before_a_failure_has_no_position() -> None:
    """After the last event with a position, the rest of the stream follows, and the usage of the whole stream once."""
    runner = ScriptedRunner("hello there")
    async with running(runner) as run, running(ScriptedRunner("hello there")) as other:
        message = request(model=MODEL)
        with runner.paused(after=3):
            call = run.chat.StreamChat(message)
            events = [await call.read() for _ in range(2)]
            runner.fail_with = RuntimeError("the step failed")
        rejection = await rejection_of(call)
        assert rejection.info.reason == "ENGINE_FAILED"
        events += rejection.events
        assert events[-1].HasField("usage")
        assert not events[-1].position
        received = [event for event in events if event.position]
        joined = received + await read(other, resumed(message, received))
        assert whole(joined) == whole(await read(other, resumed(message, received, replay=True)))
        assert [event.sequence_number for event in joined] == list(range(len(joined)))
