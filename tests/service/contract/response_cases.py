"""Chats whose responses are recorded in tests/golden/responses, and the rules that every response's events keep."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from google.protobuf import timestamp_pb2
from sluice.v1 import chat_pb2, logprobs_pb2, response_event_pb2, response_item_pb2, sampling_pb2, usage_pb2

from service.pipeline.response_events import ResponseEvents

ChatEvent = chat_pb2.StreamChatResponse
Event = response_event_pb2.StreamResponseResponse

STARTED = ChatEvent(
    started=chat_pb2.ChatStarted(
        id="0af3",
        created=timestamp_pb2.Timestamp(seconds=1_700_000_000),
        model="m",
        system_fingerprint="fp_1",
        sampling=sampling_pb2.SamplingParams(temperature=0.5, top_p=1, seed=7),
        stopping=sampling_pb2.StopParams(max_tokens=100),
    )
)
USAGE = ChatEvent(usage=usage_pb2.Usage(prompt_tokens=7, completion_tokens=5, reasoning_tokens=2, cached_tokens=4))
COMPLETED = ChatEvent(completed=chat_pb2.ChatCompleted())


def text(piece: str, *token_ids: int) -> ChatEvent:
    logprobs = [logprobs_pb2.TokenLogprob(token=f"t{each}", token_id=each, logprob=-0.5) for each in token_ids]
    return ChatEvent(content_delta=chat_pb2.ContentDelta(text=piece, logprobs=logprobs))


def thought(piece: str) -> ChatEvent:
    return ChatEvent(reasoning_delta=chat_pb2.ReasoningDelta(text=piece))


def call(index: int, arguments: str = "", **head: Any) -> ChatEvent:
    return ChatEvent(tool_call_delta=chat_pb2.ToolCallDelta(tool_call_index=index, arguments=arguments, **head))


def finished(reason: str) -> ChatEvent:
    return ChatEvent(choice_finished=chat_pb2.ChoiceFinished(finish_reason=f"FINISH_REASON_{reason}"))


def chat(*deltas: ChatEvent, reason: str = "STOP") -> list[ChatEvent]:
    """A whole chat."""
    return [STARTED, *deltas, finished(reason), USAGE, COMPLETED]


TWO_CALLS = (
    text("Let me see."),
    call(0, id="call_a", name="weather"),
    call(0, '{"city":'),
    call(0, ' "Oslo"}'),
    call(1, id="call_b", name="time"),
    call(1, "{}"),
)
CHATS: dict[str, tuple[list[ChatEvent], dict[str, Any]]] = {  # by name: the chat's events, and the machine's settings
    "text": (chat(text("Hel"), text("lo")), {"metadata": {"run": "7"}}),
    "reasoning": (chat(thought("hm "), thought("so"), text("It is.")), {}),
    "two_calls": (chat(*TWO_CALLS, reason="TOOL_CALLS"), {}),
    "one_call_of_two": (chat(*TWO_CALLS, reason="TOOL_CALLS"), {"max_tool_calls": 1}),
    "cut_off": (chat(thought("hm"), text("It "), reason="LENGTH"), {}),
    "empty": (chat(), {}),
    "json": (chat(text('{"a"', 1, 2), text(": 1}", 3), text("", 4)), {}),
}


def respond(events: Iterable[ChatEvent], **settings: Any) -> list[Event]:
    """The response's events, numbered."""
    machine = ResponseEvents(**settings)
    made = [each for event in events for each in machine.take(event)]
    for number, event in enumerate(made):
        event.sequence_number = number
    return made


def check_order(events: Sequence[Event]) -> None:
    """Fail unless numbers, items, parts and the end follow the contract's order and tell the same."""
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.WhichOneof("event") for event in events]
    assert kinds[:2] == ["created", "in_progress"]
    assert kinds[-1] in {"completed", "incomplete"}
    items: list[response_item_pb2.OutputItem] = []
    place = 2
    while place < len(events) - 1:
        added = events[place].output_item_added
        assert (kinds[place], added.output_index) == ("output_item_added", len(items))
        end = kinds.index("output_item_done", place)
        done = events[end].output_item_done
        assert (done.output_index, done.item.id) == (len(items), added.item.id)
        _check_item(added.item, done.item, events[place + 1 : end])
        items.append(done.item)
        place = end + 1
    assert len({item.id for item in items}) == len(items)
    last = getattr(events[-1], kinds[-1] or "").response
    assert list(last.output) == items


def _check_item(added: Any, done: Any, inner: Sequence[Event]) -> None:
    kinds = [event.WhichOneof("event") for event in inner]
    assert all(_place(event) == _place(inner[0]) for event in inner)
    if done.HasField("message"):
        assert (kinds[0], kinds[-2:]) == ("content_part_added", ["output_text_done", "content_part_done"])
        assert set(kinds[1:-2]) <= {"output_text_delta"}
        (part,) = done.message.content
        assert "".join(event.output_text_delta.delta for event in inner) == inner[-2].output_text_done.text == part.text
        assert inner[-1].content_part_done.part == part
        told = [each for event in inner for each in event.output_text_delta.logprobs]
        assert told == list(part.logprobs) == list(inner[-2].output_text_done.logprobs)
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


def _place(event: Event) -> tuple[str, int]:
    inner = getattr(event, event.WhichOneof("event") or "")
    return inner.item_id, inner.output_index
