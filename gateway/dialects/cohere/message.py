"""Messages of Cohere's chats, and their conversion to the contract's.

A message of an earlier answer has more fields than are read here; unknown fields are ignored. Documents become text,
since prompts have no other form for them.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec
from sluice.v1 import content_pb2, tool_pb2

from gateway.dialects.seam.contract_limit import check_length
from gateway.dialects.seam.failure import Failure

_ROLES: Final = {
    "system": content_pb2.ROLE_SYSTEM,
    "user": content_pb2.ROLE_USER,
    "assistant": content_pb2.ROLE_ASSISTANT,
    "tool": content_pb2.ROLE_TOOL,
}
_DETAILS: Final = {
    "auto": content_pb2.IMAGE_DETAIL_AUTO,
    "low": content_pb2.IMAGE_DETAIL_LOW,
    "high": content_pb2.IMAGE_DETAIL_HIGH,
}


class Document(msgspec.Struct):
    """A document: its fields by name, or one text."""

    data: dict[str, msgspec.Raw] | str
    id: str | None = None


class TextPart(msgspec.Struct, tag_field="type", tag="text"):
    """A piece of text."""

    text: str


class ThinkingPart(msgspec.Struct, tag_field="type", tag="thinking"):
    """The assistant's thinking."""

    thinking: str


class ImageUrl(msgspec.Struct):
    """The URL of an image."""

    url: str
    detail: Literal["auto", "low", "high"] | None = None


class ImagePart(msgspec.Struct, tag_field="type", tag="image_url"):
    """An image."""

    image_url: ImageUrl


class DocumentPart(msgspec.Struct, tag_field="type", tag="document"):
    """A document in the result of a tool."""

    document: Document


Part: TypeAlias = TextPart | ThinkingPart | ImagePart | DocumentPart


class CalledFunction(msgspec.Struct):
    """A function's name and the JSON text of its arguments."""

    name: str
    arguments: str | None = None


class ToolCall(msgspec.Struct):
    """A tool call of the assistant."""

    id: str
    function: CalledFunction
    type: Literal["function"] | None = None


class CohereMessage(msgspec.Struct):
    """One turn. `tool_plan` is the assistant's text before its calls."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | list[Part] | None = None
    tool_calls: list[ToolCall] | None = None
    tool_plan: str | None = None
    tool_call_id: str | None = None


def to_message(message: CohereMessage, path: str) -> content_pb2.Message:
    """Return the contract's message. Raise Failure naming `path` for too many items and misplaced thinking."""
    result = content_pb2.Message(role=_ROLES[message.role])
    if message.tool_plan:
        result.content.add(text=message.tool_plan)
    if isinstance(message.content, str):
        result.content.add(text=message.content)
    else:
        check_length(content_pb2.Message, "content", message.content or (), f"{path}.content")
        thinking_texts = [part.thinking for part in message.content or () if isinstance(part, ThinkingPart)]
        if thinking_texts and message.role != "assistant":
            raise Failure.of_field(f"{path}.content", "thinking is only allowed in messages of the assistant")
        if thinking_texts:
            result.reasoning = "".join(thinking_texts)
        result.content.extend(_to_part(part) for part in message.content or () if not isinstance(part, ThinkingPart))
    if message.tool_call_id is not None:
        result.tool_call_id = message.tool_call_id
    check_length(content_pb2.Message, "tool_calls", message.tool_calls or (), f"{path}.tool_calls")
    for call in message.tool_calls or ():
        function = tool_pb2.FunctionCall(name=call.function.name, arguments=call.function.arguments or "{}")
        result.tool_calls.add(id=call.id, function=function)
    if not result.content and not result.tool_calls:
        result.content.add(text="")
    return result


def document_text(document: str | Document) -> str:
    """Return the text of a document: one line for each of its fields, or its only text."""
    if isinstance(document, str):
        return document
    names = [] if document.id is None else [f"id: {document.id}"]
    data = document.data
    lines = [data] if isinstance(data, str) else [f"{name}: {_field_text(value)}" for name, value in data.items()]
    return "\n".join([*names, *lines])


def _field_text(value: msgspec.Raw) -> str:
    """Return a string unchanged, and any other value as JSON."""
    text = bytes(value).decode()
    return msgspec.json.decode(text, type=str) if text.startswith('"') else text


def _to_part(part: TextPart | ImagePart | DocumentPart) -> content_pb2.ContentPart:
    match part:
        case TextPart(text):
            return content_pb2.ContentPart(text=text)
        case DocumentPart(document):
            return content_pb2.ContentPart(text=document_text(document))
        case ImagePart(image):
            url = content_pb2.ImageUrl(url=image.url)
            if image.detail is not None:
                url.detail = _DETAILS[image.detail]
            return content_pb2.ContentPart(image_url=url)
