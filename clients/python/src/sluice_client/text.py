"""The text of the first choice in a stream's events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sluice_client import methods
from sluice_client.v1 import chat_pb2, completion_pb2, response_event_pb2, text_generation_pb2


def of_chat(event: chat_pb2.StreamChatResponse) -> str:
    """Return the text in an event of a chat."""
    delta = event.content_delta
    return "" if delta.choice_index else delta.text


def of_completion(event: completion_pb2.StreamCompleteResponse) -> str:
    """Return the text in an event of a completion."""
    return "" if event.delta.choice_index else event.delta.text


def of_response(event: response_event_pb2.StreamResponseResponse) -> str:
    """Return the text in an event of a response."""
    return event.output_text_delta.delta


def of_generated_text(event: text_generation_pb2.StreamGenerateTextResponse) -> str:
    """Return the text in an event of a text generation."""
    return event.delta.text


_BY_PATH: Final[dict[str, Callable[[Any], str]]] = {
    methods.STREAM_CHAT.path: of_chat,
    methods.STREAM_COMPLETE.path: of_completion,
    methods.STREAM_RESPONSE.path: of_response,
    methods.FOLLOW_RESPONSE.path: of_response,
    methods.STREAM_GENERATE_TEXT.path: of_generated_text,
}


def text_reader(method: methods.Method[Any, Any]) -> Callable[[Any], str]:
    """Return the function that extracts the text from a method's events; those of other methods have none."""
    return _BY_PATH.get(method.path, lambda _: "")
