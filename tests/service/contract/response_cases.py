"""Chats whose responses are recorded in tests/golden/responses, and the rules for the messages of every response."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sluice.v1 import response_event_pb2, response_item_pb2, response_pb2

from service.contract.responses.response_renderer import ResponseRenderer
from service.generation.outputs.events import (
    ChoiceFinished,
    Completed,
    DecodedLogprob,
    Event,
    Reasoning,
    Started,
    Text,
    ToolArguments,
    ToolCall,
    Usage,
)
from service.generation.outputs.output import FinishReason
from service.generation.requests.parameters import SamplingParams, StopParams

Message = response_event_pb2.StreamResponseResponse

STARTED = Started(
    id="0af3",
    created_ns=1_700_000_000 * 10**9,
    model="m",
    model_version="",
    fingerprint="fp_1",
    sampling=SamplingParams(temperature=0.5, seed=7),
    stopping=StopParams(max_tokens=100),
)
USAGE = Usage(prompt_tokens=7, completion_tokens=5, reasoning_tokens=2, cached_tokens=4)


def text(piece: str, *token_ids: int) -> Text:
    return Text(0, piece, [DecodedLogprob(each, f"t{each}".encode(), -0.5) for each in token_ids])


def reasoning(piece: str) -> Reasoning:
    return Reasoning(0, piece)


def call(index: int, call_id: str = "", name: str = "") -> ToolCall:
    return ToolCall(0, index, call_id, name)


def arguments(index: int, piece: str) -> ToolArguments:
    return ToolArguments(0, index, piece)


def chat(*deltas: Event, reason: FinishReason = FinishReason.END_OF_TEXT) -> list[Event]:
    """Return the events of a whole chat."""
    return [STARTED, *deltas, ChoiceFinished(0, reason), USAGE, Completed(1_700_000_003 * 10**9)]


TWO_CALLS: tuple[Event, ...] = (
    text("Let me see."),
    call(0, "call_a", "weather"),
    arguments(0, '{"city":'),
    arguments(0, ' "Oslo"}'),
    call(1, "call_b", "time"),
    arguments(1, "{}"),
)
_CALLED = FinishReason.TOOL_CALLS
CHATS: dict[str, tuple[list[Event], dict[str, Any]]] = {  # by name: the chat's events, and fields of the request
    "text": (chat(text("Hel"), text("lo")), {"metadata": {"run": "7"}}),
    "reasoning": (chat(reasoning("hm "), reasoning("so"), text("It is.")), {}),
    "two_calls": (chat(*TWO_CALLS, reason=_CALLED), {}),
    "cut_off": (chat(reasoning("hm"), text("It "), reason=FinishReason.LENGTH), {}),
    "empty": (chat(), {}),
    "json": (chat(text('{"a"', 1, 2), text(": 1}", 3), text("", 4)), {}),
}


def respond(events: Iterable[Event], **fields: Any) -> list[Message]:
    """Return the response's messages, numbered. `fields` are fields of the request."""
    renderer = ResponseRenderer(response_pb2.CreateResponseRequest(**fields))
    made = [message for event in events for message in renderer.render([event])]
    for number, message in enumerate(made):
        message.sequence_number = number
    return made


def check_order(events: Sequence[Message]) -> None:
    """Fail unless numbers, items, parts and the end follow the contract's order and agree with each other."""
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.WhichOneof("event") for event in events]
    assert kinds[:2] == ["created", "in_progress"]
    assert kinds[-1] in {"completed", "incomplete"}
    items: list[response_item_pb2.OutputItem] = []
    position = 2
    while position < len(events) - 1:
        added = events[position].output_item_added
        assert (kinds[position], added.output_index) == ("output_item_added", len(items))
        end = kinds.index("output_item_done", position)
        done = events[end].output_item_done
        assert (done.output_index, done.item.id) == (len(items), added.item.id)
        _check_item(added.item, done.item, events[position + 1 : end])
        items.append(done.item)
        position = end + 1
    assert len({item.id for item in items}) == len(items)
    last = getattr(events[-1], kinds[-1] or "").response
    assert list(last.output) == items


def _check_item(added: Any, done: Any, inner: Sequence[Message]) -> None:
    kinds = [event.WhichOneof("event") for event in inner]
    assert all(_place(event) == _place(inner[0]) for event in inner)
    if done.HasField("message"):
        assert (kinds[0], kinds[-2:]) == ("content_part_added", ["output_text_done", "content_part_done"])
        assert set(kinds[1:-2]) <= {"output_text_delta"}
        (part,) = done.message.content
        assert "".join(event.output_text_delta.delta for event in inner) == inner[-2].output_text_done.text == part.text
        assert inner[-1].content_part_done.part == part
        found = [each for event in inner for each in event.output_text_delta.logprobs]
        assert found == list(part.logprobs) == list(inner[-2].output_text_done.logprobs)
        assert not added.message.content
    elif done.HasField("reasoning"):
        assert (set(kinds[:-1]), kinds[-1]) == ({"reasoning_text_delta"}, "reasoning_text_done")
        texts = "".join(event.reasoning_text_delta.delta for event in inner)
        assert texts == inner[-1].reasoning_text_done.text == done.reasoning.text
    else:
        assert set(kinds[:-1]) <= {"function_call_arguments_delta"}
        assert kinds[-1] == "function_call_arguments_done"
        arguments = "".join(event.function_call_arguments_delta.delta for event in inner)
        assert arguments == inner[-1].function_call_arguments_done.arguments == done.function_call.arguments
        assert (added.function_call.call_id, added.function_call.name) == (
            done.function_call.call_id,
            done.function_call.name,
        )


def _place(event: Message) -> tuple[str, int]:
    inner = getattr(event, event.WhichOneof("event") or "")
    return inner.item_id, inner.output_index
