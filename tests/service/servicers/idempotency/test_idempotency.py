"""Calls that are repeated with the id of the first one get its answer, and generate no second one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import grpc
import pytest
from sluice.v1 import chat_pb2, completion_pb2, completion_pb2_grpc

from service.answering.batches.line_answers import NoDeadline
from service.answering.idempotent_calls import IdempotentCalls
from service.calls.call import Call, enter_call
from service.generation.caller import Caller
from service.generation.errors import EngineFailed
from tests.service.background.background_calls import storing
from tests.service.fakes import MODEL, ScriptedRunner, rejection_of, request, rest_of, running
from tests.service.servicers.responses.test_response import message_item, response_request
from tests.service.servicers.responses.test_response import stub_of as responses
from tests.waiting import GUARD_S

SERVING = {"request_id": "r1"}


async def test_repeated_call_gets_the_first_answer() -> None:
    """A call during the first one, and one after it, return its answer; the engine has one request."""
    runner = ScriptedRunner("hello")
    async with running(runner) as run:
        with runner.paused():
            calls = [run.chat.Chat(request(serving=SERVING)) for _ in range(2)]
        first, second = [await call for call in calls]
        assert first == second == await run.chat.Chat(request(serving=SERVING))
        assert first.id != (await run.chat.Chat(request(serving={"request_id": "r2"}))).id


async def test_repeated_stream_begins_again() -> None:
    """Streams have the same messages, whether the first one runs, has ended, or has lost its client."""
    runner = ScriptedRunner("hello")
    async with running(runner) as run:
        with runner.paused(after=1):
            first = run.chat.StreamChat(request(serving=SERVING))
            await first.read()
            first.cancel()
            second = run.chat.StreamChat(request(serving=SERVING))
            beginning = await second.read()
        found = [beginning, *[event async for event in rest_of(second)]]
        assert "".join(event.content_delta.text for event in found) == "hello"
        assert found == [event async for event in rest_of(run.chat.StreamChat(request(serving=SERVING)))]


async def test_other_content_under_the_same_id_is_rejected() -> None:
    """The error names the field, and the first answer remains."""
    async with running(ScriptedRunner("hello")) as run:
        first = await run.chat.Chat(request(serving=SERVING))
        rejection = await rejection_of(run.chat.Chat(request(serving=SERVING, stopping={"max_tokens": 3})))
        assert rejection.code is grpc.StatusCode.INVALID_ARGUMENT
        assert rejection.info.metadata["field"] == "serving.request_id"
        assert await run.chat.Chat(request(serving=SERVING)) == first
        completion = completion_pb2.CompleteRequest(model=MODEL, prompts=[{"text": "hi"}], serving=SERVING)
        stub: Any = completion_pb2_grpc.CompletionServiceStub(run.channel)
        assert (await stub.Complete(completion)).choices[0].text == "hello"  # another method


async def test_seed_follows_from_the_id() -> None:
    """Two services draw the same seed for the same id, and none for another id or a given seed."""
    seeds = []
    for serving in (SERVING, SERVING, {"request_id": "r2"}):
        async with running(ScriptedRunner("hello")) as run:
            call = run.chat.StreamChat(request(serving=serving))
            started: chat_pb2.StreamChatResponse = await call.read()
            seeds.append(started.started.sampling.seed)
            call.cancel()
    assert seeds[0] == seeds[1] != seeds[2]


@pytest.mark.parametrize("content", [{}, {"stopping": {"max_tokens": 3}}])
async def test_answer_of_another_service_is_the_same(content: Any) -> None:
    """Two services, as replicas are, give an answer to the same id and request one id, and another one otherwise."""
    answers = []
    contents: list[Any] = [{}, {"stopping": {"max_tokens": 3}}]
    for fields in contents:
        async with running(ScriptedRunner("hello")) as run:
            answer = await run.chat.Chat(request(serving=SERVING, **fields))
            events = [event async for event in rest_of(run.chat.StreamChat(request(serving=SERVING, **fields)))]
            assert events[0].started.id == answer.id
            answers.append((fields, answer))
    async with running(ScriptedRunner("hello")) as run:
        again = await run.chat.Chat(request(serving=SERVING, **content))
        unnamed = await run.chat.Chat(request(**content))
    for fields, answer in answers:
        assert (answer.id == again.id) == (fields == content)
        assert answer.id != unnamed.id
        again.created.CopyFrom(answer.created)
        assert (answer == again) == (fields == content)


async def test_response_is_stored_and_added_to_its_conversation_once(tmp_path: Path) -> None:
    """A repeated request for a response has no second effect."""
    async with running(ScriptedRunner("hello"), **storing(tmp_path)) as run:
        wanted = response_request(store=True, serving={"requestId": "r1"}, input=[message_item("hi")])
        first, second = [(await responses(run).CreateResponse(wanted)).response for _ in range(2)]
        assert first == second
        assert first.stored


async def numbers(_: Any, within: Any) -> AsyncGenerator[Any, None]:
    assert within.time_remaining() is None
    for number in range(3):
        yield chat_pb2.ChatResponse(id=str(number))


async def failing(_: Any, within: Any) -> AsyncGenerator[Any, None]:
    yield chat_pb2.ChatResponse(id=str(within.time_remaining()))
    raise EngineFailed("broken")


async def ids(calls: IdempotentCalls, source: Any, request_id: str = "r") -> list[str]:
    """Return the ids of the messages of a call."""
    wanted = chat_pb2.ChatRequest(serving={"request_id": request_id})
    return [each.id async for each in calls.messages("m", wanted, NoDeadline(), source)]


async def test_failed_call_is_forgotten() -> None:
    """All that wait get the error, and the next call with the id begins again."""
    calls = IdempotentCalls(window_s=60, max_bytes=1 << 20)
    async with asyncio.timeout(GUARD_S):
        found = await asyncio.gather(*(ids(calls, failing) for _ in range(2)), return_exceptions=True)
        assert [type(each) for each in found] == [EngineFailed] * 2
        assert await ids(calls, numbers) == ["0", "1", "2"]
        assert await ids(calls, failing) == ["0", "1", "2"]
    await calls.close()


async def test_callers_with_many_answers_lose_theirs_first() -> None:
    """The answers of one key, however many, do not make those of another key be generated again."""
    calls = IdempotentCalls(window_s=60, max_bytes=5000)

    def enter(caller_id: str) -> None:
        enter_call(Call("m", "1", caller=Caller(id=caller_id)))

    enter("modest")
    await ids(calls, numbers)
    enter("greedy")
    for number in range(20):
        await ids(calls, numbers, str(number))
    assert await ids(calls, failing, "19") == ["0", "1", "2"]
    (oldest,) = await asyncio.gather(ids(calls, failing, "0"), return_exceptions=True)
    assert isinstance(oldest, EngineFailed)
    enter("modest")
    assert await ids(calls, failing) == ["0", "1", "2"]
    await calls.close()


@pytest.mark.parametrize(
    ("window_s", "max_bytes", "is_kept"), [(60, 1 << 20, True), (5, 1 << 20, False), (60, 1500, False)]
)
async def test_answers_are_kept_within_limits(window_s: float, max_bytes: int, *, is_kept: bool) -> None:
    """An answer is forgotten after the window, and the oldest one if all together are too large."""
    now = [0.0]
    calls = IdempotentCalls(window_s=window_s, max_bytes=max_bytes, clock=lambda: now[0])
    await ids(calls, numbers)
    now[0] = 10.0
    await ids(calls, numbers, "other")
    (again,) = await asyncio.gather(ids(calls, failing), return_exceptions=True)
    assert (again == ["0", "1", "2"]) == is_kept
    await calls.close()
