"""How a call of any kind has ended, and checks that its messages are consistent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
from grpc import aio
from sluice.v1 import chat_pb2, response_item_pb2

from tests.service.contract.response_cases import check_order
from tests.service.fakes import Rejection
from tests.service.random_calls import RandomCall
from tests.service.server.random_service import Service


@dataclass
class Ending:
    """The outcome of a call: its events or answer, and the status, which is CANCELLED if the client cancelled."""

    call: RandomCall
    status: grpc.StatusCode = grpc.StatusCode.OK
    reason: str = ""
    has_no_room: bool = False  # at least this number for an answer of its form
    got: list[Any] = field(default_factory=list)


async def read(call: Any, events: list[Any], num_events: int | None = None) -> None:
    """Append the call's next events, up to `num_events` in all or to its end; raises the call's error."""
    while len(events) != num_events and (event := await call.read()) is not aio.EOF:
        events.append(event)


async def end_of(service: Service, expected: RandomCall) -> Ending:
    """Make the call, read or cancel it, and return its outcome."""
    ending = Ending(expected)
    call = service.methods[expected.method](expected.request, timeout=expected.timeout_s)
    try:
        if expected.leaves_after is not None:
            if expected.is_streamed:
                await read(call, ending.got, expected.leaves_after)
            else:
                await asyncio.sleep(expected.leaves_after / 1000)
            if call.cancel():
                ending.status = grpc.StatusCode.CANCELLED
                return ending
        if expected.is_streamed:
            await read(call, ending.got)
        else:
            ending.got.append(await call)
    except aio.AioRpcError as error:
        ending.status = error.code()
        if ending.status is not grpc.StatusCode.DEADLINE_EXCEEDED:  # an error of gRPC itself, which has no reason
            ending.reason = Rejection(error).info.reason
            ending.has_no_room = "shortest answer that matches" in str(error.details())
    return ending


def check_ending(ending: Ending) -> None:
    """Check that the call may have its status, and that an answer that was not cut short is complete."""
    call = ending.call
    expected = {call.wrong or grpc.StatusCode.OK}
    if call.timeout_s is not None:
        expected.add(grpc.StatusCode.DEADLINE_EXCEEDED)
    if call.leaves_after is not None:
        expected.add(grpc.StatusCode.CANCELLED)
    if ending.reason == "QUEUE_FULL":
        expected.add(grpc.StatusCode.RESOURCE_EXHAUSTED)
    if ending.has_no_room:  # a call or a text whose format needs more tokens than requested
        expected.add(grpc.StatusCode.INVALID_ARGUMENT)
    assert ending.status in expected, (ending.reason, call)
    is_whole = ending.status is grpc.StatusCode.OK
    if call.is_streamed:
        check_stream(ending.got, call, is_whole=is_whole)
    elif is_whole:
        (answer,) = ending.got
        check_whole(answer, call)


def check_stream(events: Sequence[Any], call: RandomCall, *, is_whole: bool) -> None:
    """Check a stream: numbers without gaps, at most one end per choice and nothing after it, the end event last."""
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.WhichOneof("event") for event in events]
    num_ends = sum(kind in {"completed", "incomplete"} for kind in kinds)
    assert num_ends <= 1
    assert not is_whole or (num_ends, kinds[-1] in {"completed", "incomplete"}) == (1, True)
    if call.method == "StreamResponse":
        if is_whole:
            check_order(events)
        return
    finished: set[int] = set()
    for event, kind in zip(events, kinds, strict=True):
        choice_index = getattr(getattr(event, kind), "choice_index", 0)
        if kind in {"choice_finished", "finished"}:
            assert choice_index not in finished
            finished.add(choice_index)
        elif kind.endswith("delta"):
            assert choice_index not in finished
    assert kinds.count("usage") <= 1
    if is_whole:
        assert kinds[-2:] == ["usage", "completed"]
        assert finished == set(range(call.num_choices))


def check_whole(answer: Any, call: RandomCall) -> None:
    """Check that an answer has all its parts, each with its finish reason."""
    match call.method:
        case "Chat" | "Complete":
            assert [choice.index for choice in answer.choices] == list(range(call.num_choices))
            assert all(choice.finish_reason for choice in answer.choices)
        case "GenerateText":
            assert answer.finish_reason != chat_pb2.FINISH_REASON_UNSPECIFIED
        case "CreateResponse":
            assert answer.response.status > response_item_pb2.RESPONSE_STATUS_IN_PROGRESS
        case "Embed":
            assert [each.index for each in answer.embeddings] == list(range(len(call.request.inputs)))
