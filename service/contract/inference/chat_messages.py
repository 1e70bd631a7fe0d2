"""The messages of a chat in JSON, as chat completions have them, to messages of the contract."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from sluice.v1 import content_pb2, tool_pb2

from service.generation.errors import InvalidRequest

_ROLES: Final = {
    "system": content_pb2.ROLE_SYSTEM,
    "developer": content_pb2.ROLE_SYSTEM,
    "user": content_pb2.ROLE_USER,
    "assistant": content_pb2.ROLE_ASSISTANT,
    "tool": content_pb2.ROLE_TOOL,
}

_MAY_BE_EMPTY: Final = frozenset({content_pb2.ROLE_ASSISTANT, content_pb2.ROLE_TOOL})
_MAX_MESSAGES: Final = 4096  # the contract's limits, checked before the conversion
_MAX_PARTS: Final = 1024


def to_chat_messages(text: str, path: str) -> Iterator[content_pb2.Message]:
    """Yield the messages of a JSON list; `path` is its path in the request. Raise InvalidRequest.

    A system message that is not the first one becomes a user's turn, since templates have no position for it, and an
    answer or a result without content an empty text.
    """
    try:
        messages = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(path, f"must be a JSON list of messages: {error}") from error
    if not isinstance(messages, list):
        raise InvalidRequest(path, "must be a JSON list of messages")
    if len(messages) > _MAX_MESSAGES:
        raise InvalidRequest(path, f"must have at most {_MAX_MESSAGES} messages, not {len(messages)}")
    for index, message in enumerate(messages):
        try:
            made = _to_message(message, f"{path}[{index}]")
        except UnicodeError as error:
            raise InvalidRequest(f"{path}[{index}]", "has a text that is not Unicode") from error
        if index and made.role == content_pb2.ROLE_SYSTEM:
            made.role = content_pb2.ROLE_USER
        if made.role in _MAY_BE_EMPTY and not made.content and not made.tool_calls:
            made.content.add(text="")
        yield made


def _to_message(given: Any, path: str) -> content_pb2.Message:
    """Return one message. Fields that chat completions don't have are ignored."""
    given = of_type(given, dict, "an object", path)
    if (role := _ROLES.get(str(given.get("role")))) is None:
        raise InvalidRequest(f"{path}.role", f"must be one of {', '.join(_ROLES)}")
    message = content_pb2.Message(role=role)
    content = given.get("content")
    if isinstance(content, str):
        message.content.add(text=content)
    elif content is not None:
        parts = of_type(content, list, "a text or a list of parts", f"{path}.content")
        if len(parts) > _MAX_PARTS:
            raise InvalidRequest(f"{path}.content", f"must have at most {_MAX_PARTS} parts, not {len(parts)}")
        for index, part in enumerate(parts):
            message.content.append(_to_part(part, f"{path}.content[{index}]"))
    for name in ("name", "tool_call_id"):
        if given.get(name) is not None:
            setattr(message, name, of_type(given[name], str, "a text", f"{path}.{name}"))
    reasoning = given.get("reasoning_content")
    if reasoning is not None:
        message.reasoning = of_type(reasoning, str, "a text", f"{path}.reasoning_content")
    calls = of_type(given.get("tool_calls") or [], list, "a list", f"{path}.tool_calls")
    for index, call in enumerate(calls):
        message.tool_calls.append(_to_call(call, f"{path}.tool_calls[{index}]"))
    return message


def _to_part(given: Any, path: str) -> content_pb2.ContentPart:
    """Return a part of a message's content: a text or an image."""
    given = of_type(given, dict, "an object", path)
    if given.get("type") == "text":
        return content_pb2.ContentPart(text=of_type(given.get("text"), str, "a text", f"{path}.text"))
    if given.get("type") == "image_url":
        image = of_type(given.get("image_url"), dict, "an object", f"{path}.image_url")
        url = of_type(image.get("url"), str, "a text", f"{path}.image_url.url")
        return content_pb2.ContentPart(image_url=content_pb2.ImageUrl(url=url))
    raise InvalidRequest(f"{path}.type", "must be text or image_url")


def _to_call(given: Any, path: str) -> tool_pb2.ToolCall:
    """Return a tool call of the assistant."""
    given = of_type(given, dict, "an object", path)
    function = of_type(given.get("function"), dict, "an object", f"{path}.function")
    arguments = function.get("arguments")
    if isinstance(arguments, dict):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return tool_pb2.ToolCall(
        id=of_type(given.get("id"), str, "a text", f"{path}.id"),
        function=tool_pb2.FunctionCall(
            name=of_type(function.get("name"), str, "a text", f"{path}.function.name"),
            arguments=of_type(arguments, str, "a JSON text or an object", f"{path}.function.arguments"),
        ),
    )


def of_type(value: Any, kind: type, name: str, path: str) -> Any:
    """Return `value`. Raise InvalidRequest unless it has the type, which the error calls `name`."""
    if not isinstance(value, kind):
        raise InvalidRequest(path, f"must be {name}")
    return value
