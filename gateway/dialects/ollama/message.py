"""Messages of Ollama's chats, and their conversion to the contract's.

Calls and their results often have no ids: a result then belongs to the first call of its tool that has none yet.
Unknown fields of messages are ignored, since those of earlier answers may have more.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec
from sluice.v1 import content_pb2, tool_pb2

from gateway.dialects.seam.contract_limit import check_length, check_text
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.history import OpenCalls, move_later_to_user

_ROLES: Final = {
    "system": content_pb2.ROLE_SYSTEM,
    "user": content_pb2.ROLE_USER,
    "assistant": content_pb2.ROLE_ASSISTANT,
    "tool": content_pb2.ROLE_TOOL,
}


class CalledFunction(msgspec.Struct):
    """A function's name and its arguments, a JSON object."""

    name: str
    arguments: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"{}"))


class CalledTool(msgspec.Struct):
    """A tool call of the assistant."""

    function: CalledFunction
    id: str | None = None


class OllamaMessage(msgspec.Struct):
    """One turn. `images` are base64 texts of files."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    thinking: str | None = None
    images: list[str] | None = None
    tool_calls: list[CalledTool] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


def to_messages(messages: Sequence[OllamaMessage]) -> list[content_pb2.Message]:
    """Return the contract's messages. Raise Failure naming the message.

    A system message that is not the first one becomes a turn of the user, since templates have no position for it.
    """
    calls = OpenCalls()
    result = [_to_message(message, f"messages.{i}", calls) for i, message in enumerate(messages)]
    move_later_to_user(result)
    return result


def image_parts(images: Iterable[str], path: str) -> list[content_pb2.ContentPart]:
    """Return the parts of images. Raise Failure naming `path` for texts that are not base64."""
    parts = []
    for i, text in enumerate(images):
        try:
            data = base64.b64decode(text, validate=True)
        except binascii.Error:
            raise Failure.of_field(f"{path}.{i}", "must be the base64 text of an image file") from None
        parts.append(content_pb2.ContentPart(image=content_pb2.InlineImage(data=data)))
    return parts


def _to_message(message: OllamaMessage, path: str, calls: OpenCalls) -> content_pb2.Message:
    result = content_pb2.Message(role=_ROLES[message.role])
    if message.content or not (message.images or message.tool_calls):
        result.content.add(text=message.content or "")
    check_length(content_pb2.Message, "content", message.images or (), f"{path}.images")
    result.content.extend(image_parts(message.images or (), f"{path}.images"))
    if message.thinking:
        if message.role != "assistant":
            raise Failure.of_field(f"{path}.thinking", "is only allowed in messages of the assistant")
        result.reasoning = message.thinking
    check_length(content_pb2.Message, "tool_calls", message.tool_calls or (), f"{path}.tool_calls")
    for i, call in enumerate(message.tool_calls or ()):
        arguments = _arguments(call.function, f"{path}.tool_calls.{i}.function.arguments")
        function = tool_pb2.FunctionCall(name=call.function.name, arguments=arguments)
        result.tool_calls.add(id=calls.add(call.id, call.function.name), function=function)
    check_text(content_pb2.Message, "tool_call_id", message.tool_call_id, f"{path}.tool_call_id")  # of any message
    if message.role == "tool":
        result.tool_call_id = calls.answered(message.tool_call_id, message.tool_name) or calls.new_id()
    return result


def _arguments(function: CalledFunction, path: str) -> str:
    """Return the JSON text of arguments, which some clients send as a text. Raise Failure for other values."""
    data = bytes(function.arguments)
    if data.startswith(b'"'):
        return msgspec.json.decode(data, type=str)
    if not data.startswith(b"{"):
        raise Failure.of_field(path, "must be an object", Reason.INVALID_TYPE)
    return data.decode()
