"""A chat's events as a response's: recorded to the event, and in order for every chat."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from sluice.v1 import response_item_pb2

from service.pipeline.response_events import ResponseEvents
from tests.pipeline.response_cases import (
    CHATS,
    COMPLETED,
    STARTED,
    TWO_CALLS,
    USAGE,
    ChatEvent,
    Event,
    call,
    chat,
    check_order,
    finished,
    respond,
    text,
    thought,
)

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "responses"
COMPLETED_STATUS = response_item_pb2.RESPONSE_STATUS_COMPLETED
INCOMPLETE_STATUS = response_item_pb2.RESPONSE_STATUS_INCOMPLETE


@pytest.mark.parametrize("name", CHATS)
def test_events_are_golden(name: str) -> None:
    """Each chat becomes exactly the recorded events."""
    events, settings = CHATS[name]
    blocks = (GOLDEN / f"{name}.textproto").read_text().split("\n---\n")
    wanted = [text_format.Parse(block, Event()) for block in blocks]
    assert respond(events, **settings) == wanted


@pytest.mark.parametrize("name", CHATS)
def test_whole_response_is_what_the_last_event_has(name: str) -> None:
    """The machine's own response, the fold of the stream, is the terminal event's."""
    events, settings = CHATS[name]
    machine = ResponseEvents(**settings)
    *_, last = [each for event in events for each in machine.take(event)]
    assert machine.response == getattr(last, last.WhichOneof("event") or "").response
    check_order(respond(events, **settings))


@pytest.mark.parametrize("reason", ["LENGTH", "CONTENT_FILTER"])
@pytest.mark.parametrize("deltas", [(thought("h"),), (text("a"),), TWO_CALLS, ()])
def test_cut_off_response_is_incomplete_and_so_is_its_last_item(reason: str, deltas: tuple[ChatEvent, ...]) -> None:
    """The items before stay complete, and no empty message is made up."""
    events = respond(chat(*deltas, reason=reason))
    check_order(events)
    response = events[-1].incomplete.response
    assert response.status == INCOMPLETE_STATUS
    assert response.incomplete_reason == finished(reason).choice_finished.finish_reason
    statuses = [item.status for item in response.output]
    assert statuses == [*[COMPLETED_STATUS] * (len(statuses) - 1), INCOMPLETE_STATUS][-len(statuses) :] or not deltas


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_calls_beyond_the_limit_are_left_out(limit: int) -> None:
    """The first ones stay, and text after those left out goes on where the last item was none of them."""
    calls = [event for index in range(3) for event in (call(index, id=f"c{index}", name="f"), call(index, "{}"))]
    response = respond(chat(*calls, text("so"), reason="TOOL_CALLS"), max_tool_calls=limit)[-1].completed.response
    kinds = [item.WhichOneof("item") for item in response.output]
    assert kinds == ["function_call"] * limit + ["message"]
    assert [item.function_call.call_id for item in response.output[:-1]] == [f"c{index}" for index in range(limit)]


def test_thoughts_alone_get_an_empty_message() -> None:
    """An answer that ends by itself can be sent back as a turn."""
    response = respond(chat(thought("hm")))[-1].completed.response
    assert [item.WhichOneof("item") for item in response.output] == ["reasoning", "message"]
    assert [part.text for part in response.output[1].message.content] == [""]


def test_logprobs_without_text_wait_for_the_message() -> None:
    """Tokens that make no character yet open no message; they are told with its first text."""
    events = respond(chat(thought("h"), text("", 1), text("é", 2), text("", 3)))
    check_order(events)
    deltas = [event.output_text_delta for event in events if event.HasField("output_text_delta")]
    assert [(delta.delta, [each.token_id for each in delta.logprobs]) for delta in deltas] == [("é", [1, 2]), ("", [3])]


deltas = st.lists(
    st.one_of(
        st.tuples(st.just("text"), st.text(min_size=1, max_size=6)),
        st.tuples(st.just("thought"), st.text(min_size=1, max_size=6)),
        st.tuples(st.just("call"), st.text(max_size=6)),
    ),
    max_size=8,
)


def pieces_of(whole: str, cuts: st.DataObject) -> list[str]:
    """A text in pieces, none of them empty."""
    places = sorted(cuts.draw(st.sets(st.integers(1, max(1, len(whole) - 1)))) | {len(whole)})
    return [whole[begin:end] for begin, end in zip([0, *places], places, strict=False) if begin < end]


def rechunked(parts: list[tuple[str, str]], cuts: st.DataObject) -> list[ChatEvent]:
    """The deltas of a chat, each text in pieces of any size."""
    events: list[ChatEvent] = []
    num_calls = 0
    for kind, whole in parts:
        pieces = pieces_of(whole, cuts)
        match kind:
            case "text":
                events += [text(piece) for piece in pieces]
            case "thought":
                events += [thought(piece) for piece in pieces]
            case _:
                events.append(call(num_calls, id=f"c{num_calls}", name="f"))
                events += [call(num_calls, piece) for piece in pieces]
                num_calls += 1
    return events


@given(deltas, st.data(), st.sampled_from(["STOP", "LENGTH", "TOOL_CALLS"]), st.none() | st.integers(1, 3))
def test_every_chunking_has_the_same_response(
    parts: list[tuple[str, str]], cuts: st.DataObject, reason: str, limit: int | None
) -> None:
    """However a chat's texts are cut, order holds and what is done is the same."""
    runs = [
        respond(chat(*rechunked(parts, cuts), reason=reason), max_tool_calls=limit),
        respond([STARTED, *rechunked(parts, cuts), finished(reason), USAGE, COMPLETED], max_tool_calls=limit),
    ]
    for events in runs:
        check_order(events)
    done = [[event for event in events if event.WhichOneof("event") not in DELTAS] for events in runs]
    for events in done:
        for event in events:
            event.sequence_number = 0
    assert done[0] == done[1]


DELTAS = {"output_text_delta", "reasoning_text_delta", "function_call_arguments_delta"}
