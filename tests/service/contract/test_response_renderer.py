"""The messages of a response for an answer's events: equal to recordings, and in order for every answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from sluice.v1 import chat_pb2, logprobs_pb2, response_item_pb2, response_pb2, sampling_pb2

from service.contract.parts.parameters import sampling_message, stopping_message
from service.contract.responses.response_renderer import ResponseFold, ResponseRenderer
from service.contract.responses.stored_response import as_input, input_id
from service.generation.outputs.events import Event
from service.generation.outputs.output import FinishReason
from service.generation.requests.parameters import SamplingParams, StopParams
from tests.service.contract.response_cases import (
    CHATS,
    STARTED,
    TWO_CALLS,
    USAGE,
    Message,
    arguments,
    call,
    chat,
    check_order,
    reasoning,
    respond,
    text,
)

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "responses"
COMPLETED_STATUS = response_item_pb2.RESPONSE_STATUS_COMPLETED
INCOMPLETE_STATUS = response_item_pb2.RESPONSE_STATUS_INCOMPLETE


@pytest.mark.parametrize("name", CHATS)
def test_messages_are_golden(name: str) -> None:
    """Each answer becomes exactly the recorded messages; parameters that a recording omits have their defaults."""
    events, fields = CHATS[name]
    blocks = (GOLDEN / f"{name}.textproto").read_text().split("\n---\n")
    expected = [text_format.Parse(block, Message()) for block in blocks]
    for message in expected:
        complete(message)
    assert respond(events, **fields) == expected


def test_calls_of_custom_tools_are_marked() -> None:
    """From its first event on, such a call says so, and so does the item of its conversation; its id begins alike."""
    tools = [{"function": {"name": "patch", "custom": True}}, {"function": {"name": "f"}}]
    calls: list[Event] = [call(0, "c0", "patch"), arguments(0, '{"input": ""}'), call(1, "c1", "f"), arguments(1, "{}")]
    messages = respond(chat(*calls, reason=FinishReason.TOOL_CALLS), tools=tools)
    check_order(messages)
    added = [each.output_item_added.item for each in messages if each.HasField("output_item_added")]
    assert [each.function_call.custom for each in added] == [True, False]
    assert [each.id.partition("_")[0] for each in added] == ["ctc", "fc"]
    done = messages[-1].completed.response.output
    assert [as_input(each).function_call.custom for each in done] == [True, False]


@pytest.mark.parametrize(("custom", "ids"), [(True, ["ctc_r_in0", "ctco_r_in1"]), (False, ["fc_r_in0", "fco_r_in1"])])
def test_ids_of_input_items_name_custom_tools(*, custom: bool, ids: list[str]) -> None:
    """Ids begin with the kind of item, as in OpenAI's API."""
    made = {"function_call": {"custom": custom}}, {"function_call_output": {"custom": custom}}
    items = [response_item_pb2.InputItem(**each) for each in made]
    assert [input_id(item, "r", index) for index, item in enumerate(items)] == ids


def test_calls_have_the_namespace_of_their_function() -> None:
    """Each item of a call has that of the request's definition; a function without a namespace has none."""
    events, _ = CHATS["two_calls"]
    functions = [{"name": "weather", "namespace": "tasks"}, {"name": "time"}]
    messages = respond(events, tools=[{"function": each} for each in functions])
    for output in (
        [each.output_item_added.item for each in messages if each.HasField("output_item_added")],
        messages[-1].completed.response.output,
    ):
        calls = [each.function_call for each in output if each.HasField("function_call")]
        assert [(each.name, each.namespace) for each in calls] == [("weather", "tasks"), ("time", "")]
        items = [as_input(each) for each in output]
        assert [each.function_call.namespace for each in items if each.HasField("function_call")] == ["tasks", ""]


def complete(message: Any) -> None:
    """Add the fields that the service always sets and the recordings omit."""
    match message:
        case sampling_pb2.SamplingParams():
            _fill_in(message, sampling_message(SamplingParams()))
        case sampling_pb2.StopParams():
            _fill_in(message, stopping_message(StopParams()))
        case logprobs_pb2.TokenLogprob():
            message.bytes = message.token.encode()
        case _:
            for field, value in message.ListFields():
                if field.message_type is not None and not field.message_type.GetOptions().map_entry:
                    for each in value if field.is_repeated else [value]:
                        complete(each)


def _fill_in(message: Any, defaults: Any) -> None:
    defaults.MergeFrom(message)
    message.CopyFrom(defaults)


@pytest.mark.parametrize("name", CHATS)
def test_unstreamed_response_equals_the_terminal_messages(name: str) -> None:
    """The renderer's own response, and the fold of the stream, equal the terminal message's."""
    events, fields = CHATS[name]
    renderer = ResponseRenderer(response_pb2.CreateResponseRequest(**fields))
    folding = ResponseFold()
    messages = [message for event in events for message in renderer.render([event])]
    for message in messages:
        folding.add(message)
    last = messages[-1]
    assert renderer.response == getattr(last, last.WhichOneof("event") or "").response
    assert folding.response.response == renderer.response
    check_order(respond(events, **fields))


def test_cost_before_an_error_is_reported() -> None:
    """A stream with an error ends with its usage; otherwise the response has it."""
    *_, last = respond([STARTED, text("a"), USAGE])
    assert (last.usage.prompt_tokens, last.usage.completion_tokens) == (7, 5)
    kinds = [message.WhichOneof("event") for message in respond(chat(text("a")))]
    assert "usage" not in kinds


@pytest.mark.parametrize("deltas", [(reasoning("h"),), (text("a"),), TWO_CALLS, ()])
def test_truncated_response_and_its_last_item_are_incomplete(deltas: tuple[Event, ...]) -> None:
    """The items before stay complete, and no empty message is added."""
    events = respond(chat(*deltas, reason=FinishReason.LENGTH))
    check_order(events)
    response = events[-1].incomplete.response
    assert response.status == INCOMPLETE_STATUS
    assert response.incomplete_reason == chat_pb2.FINISH_REASON_LENGTH
    statuses = [item.status for item in response.output]
    assert statuses == [*[COMPLETED_STATUS] * (len(statuses) - 1), INCOMPLETE_STATUS][-len(statuses) :] or not deltas


def test_max_tool_calls_does_not_limit_function_calls() -> None:
    """`max_tool_calls` is about built-in tools: no function call is omitted."""
    calls = [event for index in range(3) for event in (call(index, f"c{index}", "f"), arguments(index, "{}"))]
    events = chat(*calls, text("so"), reason=FinishReason.TOOL_CALLS)
    response = respond(events, max_tool_calls=1)[-1].completed.response
    assert [item.WhichOneof("item") for item in response.output] == ["function_call"] * 3 + ["message"]
    assert [item.function_call.call_id for item in response.output[:-1]] == ["c0", "c1", "c2"]


def test_unstreamed_response_has_creation_and_completion_times() -> None:
    """A truncated response has no completion time."""
    completed = respond(chat(text("a")))[-1].completed.response
    assert completed.completed.seconds == 1_700_000_003
    cut_off = respond(chat(text("a"), reason=FinishReason.LENGTH))[-1].incomplete.response
    assert not cut_off.HasField("completed")


def test_reasoning_alone_gets_an_empty_message() -> None:
    """An answer that ends by itself can be sent back as a turn."""
    response = respond(chat(reasoning("hm")))[-1].completed.response
    assert [item.WhichOneof("item") for item in response.output] == ["reasoning", "message"]
    assert [part.text for part in response.output[1].message.content] == [""]


def test_logprobs_without_text_wait_for_the_message() -> None:
    """Tokens without a complete character open no message; their logprobs come with the message's first text."""
    events = respond(chat(reasoning("h"), text("", 1), text("é", 2), text("", 3)))
    check_order(events)
    deltas = [event.output_text_delta for event in events if event.HasField("output_text_delta")]
    assert [(delta.delta, [each.token_id for each in delta.logprobs]) for delta in deltas] == [("é", [1, 2]), ("", [3])]


deltas = st.lists(
    st.one_of(
        st.tuples(st.just("text"), st.text(min_size=1, max_size=6)),
        st.tuples(st.just("reasoning"), st.text(min_size=1, max_size=6)),
        st.tuples(st.just("call"), st.text(max_size=6)),
    ),
    max_size=8,
)


def deltas_of(whole: str, cuts: st.DataObject) -> list[str]:
    """Return a text split into non-empty pieces."""
    places = sorted(cuts.draw(st.sets(st.integers(1, max(1, len(whole) - 1)))) | {len(whole)})
    return [whole[begin:end] for begin, end in zip([0, *places], places, strict=False) if begin < end]


def rechunked(parts: list[tuple[str, str]], cuts: st.DataObject) -> list[Event]:
    """Return the deltas of a chat, with each text split into pieces of any size."""
    events: list[Event] = []
    num_calls = 0
    for kind, whole in parts:
        pieces = deltas_of(whole, cuts)
        match kind:
            case "text":
                events += [text(piece) for piece in pieces]
            case "reasoning":
                events += [reasoning(piece) for piece in pieces]
            case _:
                events.append(call(num_calls, f"c{num_calls}", "f"))
                events += [arguments(num_calls, piece) for piece in pieces]
                num_calls += 1
    return events


@given(deltas, st.data(), st.sampled_from(FinishReason))
def test_response_does_not_depend_on_the_chunking(
    parts: list[tuple[str, str]], cuts: st.DataObject, reason: FinishReason
) -> None:
    """However a chat's texts are split, the order holds and the completed items are the same."""
    runs = [respond(chat(*rechunked(parts, cuts), reason=reason)) for _ in range(2)]
    for events in runs:
        check_order(events)
    done = [[event for event in events if event.WhichOneof("event") not in DELTAS] for events in runs]
    for events in done:
        for event in events:
            event.sequence_number = 0
    assert done[0] == done[1]


DELTAS = {"output_text_delta", "reasoning_text_delta", "function_call_arguments_delta"}
