"""Messages of a conversation in OpenAI's family, and their mapping to the contract.

Messages of an earlier answer may have fields of this server, another server or a client: fields that are not read here
are ignored. Cache marks (`cache_control`, `prompt_cache_breakpoint`) are among them: every prompt's
prefix is cached.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec
from sluice.v1 import content_pb2, tool_pb2

from gateway.dialects.openai_family.parameters.custom_input import arguments_of
from gateway.dialects.seam.contract_limit import check_length
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.json_body import is_given

_ROLES = {
    "system": content_pb2.ROLE_SYSTEM,
    "developer": content_pb2.ROLE_SYSTEM,  # OpenAI's newer name
    "user": content_pb2.ROLE_USER,
    "assistant": content_pb2.ROLE_ASSISTANT,
    "tool": content_pb2.ROLE_TOOL,
}
_DETAILS = {
    "auto": content_pb2.IMAGE_DETAIL_AUTO,
    "low": content_pb2.IMAGE_DETAIL_LOW,
    "high": content_pb2.IMAGE_DETAIL_HIGH,
}


class TextPart(msgspec.Struct, tag_field="type", tag="text"):
    """A piece of text."""

    text: str


class RefusalPart(msgspec.Struct, tag_field="type", tag="refusal"):
    """An assistant's refusal to answer."""

    refusal: str


class Image(msgspec.Struct):
    """The URL of an image."""

    url: str
    detail: Literal["auto", "low", "high"] | None = None


class ImagePart(msgspec.Struct, tag_field="type", tag="image_url"):
    """An image."""

    image_url: Image


JsonObject: TypeAlias = dict[str, msgspec.Raw]


class FunctionCall(msgspec.Struct):
    """A function's name and its arguments: a JSON text, or the object itself, as Databricks documents it."""

    name: str
    arguments: str | JsonObject


class CustomCall(msgspec.Struct):
    """A custom tool's name and its input."""

    name: str = ""
    input: str = ""


class ToolCall(msgspec.Struct):
    """A tool call of the assistant. `type`, by default a function, determines the field that is read."""

    id: str
    function: FunctionCall | None = None
    type: Literal["function", "custom"] | None = None
    custom: CustomCall | None = None


class ChatMessage(msgspec.Struct):
    """One turn. `reasoning`, if it is a string, is an alias of `reasoning_content`."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart | ImagePart | RefusalPart] | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    refusal: str | None = None
    audio: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    function_call: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


def json_text(value: str | JsonObject | None) -> str:
    """Return the JSON text of a value given as JSON text or as an object; empty if absent."""
    return msgspec.json.encode(value).decode() if isinstance(value, dict) else value or ""


def to_message(message: ChatMessage, path: str) -> content_pb2.Message:
    """Return the contract's message. Raise Failure naming `path` for unsupported content, and for too many items."""
    for name in ("audio", "function_call"):
        if is_given(getattr(message, name)):
            raise Failure.of_field(f"{path}.{name}", "not supported", Reason.UNSUPPORTED_FIELD)
    result = content_pb2.Message(role=_ROLES[message.role], name=message.name, reasoning=_reasoning(message))
    if isinstance(message.content, str):
        result.content.add(text=message.content)
    elif message.content is not None:
        check_length(content_pb2.Message, "content", message.content, f"{path}.content")
        result.content.extend(_to_part(part) for part in message.content)
    elif message.refusal is not None:
        result.content.add(text=message.refusal)
    if message.tool_call_id is not None:
        result.tool_call_id = message.tool_call_id
    check_length(content_pb2.Message, "tool_calls", message.tool_calls or (), f"{path}.tool_calls")
    for index, call in enumerate(message.tool_calls or ()):
        result.tool_calls.add(id=call.id, function=_to_call(call, f"{path}.tool_calls.{index}"))
    return result


def _to_call(call: ToolCall, path: str) -> tool_pb2.FunctionCall:
    """Return the contract's call. Raise Failure if the field of its type is missing."""
    if call.type == "custom" and call.custom is not None:
        return tool_pb2.FunctionCall(name=call.custom.name, arguments=arguments_of(call.custom.input))
    if call.type == "custom" or call.function is None:
        field = f"{path}.{call.type or 'function'}"
        raise Failure.of_field(field, "required, but missing", Reason.MISSING_FIELD)
    return tool_pb2.FunctionCall(name=call.function.name, arguments=json_text(call.function.arguments))


def _reasoning(message: ChatMessage) -> str | None:
    """Return the assistant's reasoning from either of its two fields."""
    if message.reasoning_content is not None or message.role != "assistant":
        return message.reasoning_content
    return msgspec.json.decode(message.reasoning, type=str) if bytes(message.reasoning).startswith(b'"') else None


def _to_part(part: TextPart | ImagePart | RefusalPart) -> content_pb2.ContentPart:
    if isinstance(part, TextPart):
        return content_pb2.ContentPart(text=part.text)
    if isinstance(part, RefusalPart):
        return content_pb2.ContentPart(text=part.refusal)
    image = content_pb2.ImageUrl(url=part.image_url.url)
    if part.image_url.detail is not None:
        image.detail = _DETAILS[part.image_url.detail]
    return content_pb2.ContentPart(image_url=image)
