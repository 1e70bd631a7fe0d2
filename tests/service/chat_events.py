"""The text and the kinds of the events of a streamed chat."""

from collections.abc import Iterable

from sluice.v1 import chat_pb2


def text_of(events: Iterable[chat_pb2.StreamChatResponse]) -> str:
    """Return the text of the first choice."""
    return "".join(event.content_delta.text for event in events if event.content_delta.choice_index == 0)


def kinds_of(events: Iterable[chat_pb2.StreamChatResponse]) -> list[str]:
    """Return the kinds of events in order, with consecutive equal ones merged."""
    kinds = [event.WhichOneof("event") or "" for event in events]
    return [kind for before, kind in zip(["", *kinds], kinds, strict=False) if kind != before]
