"""Items of a response's input, and their mapping to the contract.

An item of an answer can be sent back unchanged, including fields that a client has added: fields that its type doesn't
have are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

import msgspec
from sluice.v1 import content_pb2, response_item_pb2

from gateway.dialects.openai_family.chat.message import JsonObject, json_text
from gateway.dialects.openai_family.parameters.custom_input import arguments_of
from gateway.dialects.openai_family.responses.part import (
    InputFilePart,
    InputImagePart,
    Part,
    ReasoningTextPart,
    SummaryTextPart,
    text_of,
    to_part,
)
from gateway.dialects.openai_family.responses.tool_kind import name_prefix
from gateway.dialects.seam.contract_limit import check_length
from gateway.dialects.seam.failure import Failure, Reason

_ROLES: Final = {
    "system": content_pb2.ROLE_SYSTEM,
    "developer": content_pb2.ROLE_SYSTEM,  # OpenAI's newer name
    "user": content_pb2.ROLE_USER,
    "assistant": content_pb2.ROLE_ASSISTANT,
}
_REQUIRED: Final = {
    "message": ("role", "content"),
    "function_call": ("call_id", "name", "arguments"),
    "function_call_output": ("call_id", "output"),
    "custom_tool_call": ("call_id", "name", "input"),
    "custom_tool_call_output": ("call_id", "output"),
    "reasoning": (),
}
_ITEM: Final = re.compile(r"^(input\.\d+)(?:\.(message|function_call|function_call_output|reasoning))?(?:\.(.*))?$")
_PART: Final = re.compile(r"^(content\.\d+)\.(image_url|file)(?:\.(\w+))?$")


class ResponseItem(msgspec.Struct, kw_only=True):
    """One item: a message by default. `type` determines the fields that are read."""

    type: Literal[
        "message",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "reasoning",
    ] = "message"
    role: Literal["user", "assistant", "system", "developer"] | None = None
    content: str | list[Part] | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: str | JsonObject | None = None
    input: str | None = None
    output: str | list[Part] | JsonObject | None = None
    summary: list[SummaryTextPart] | None = None


Input: TypeAlias = str | list[ResponseItem]


def to_items(given: Input) -> list[response_item_pb2.InputItem]:
    """Return the contract's items; a string is a user's message. Raise Failure for fields that don't fit the type."""
    if isinstance(given, str):
        return [_message(content_pb2.ROLE_USER, [content_pb2.ContentPart(text=given)])]
    return [_to_item(item, f"input.{index}") for index, item in enumerate(given)]


def item_name(given: Input, path: str) -> str | None:
    """Return the caller's name of an item's dotted `path`: `input.0.message.role` → `input.0.role`; None for others."""
    match = _ITEM.match(path)
    if match is None:
        return None
    if isinstance(given, str):
        return "input"
    item, head, kind, rest = given[int(match[1].partition(".")[2])], match[1], match[2], match[3] or ""
    if kind == "reasoning" or (rest.startswith("content.") and isinstance(item.content, str)):
        rest = "content"
    elif (part := _PART.match(rest)) is not None:
        rest = _part_name(part[1], part[2], part[3] or "url")
    elif rest == "arguments" and item.type == "custom_tool_call":
        rest = "input"
    return f"{head}.{rest}" if rest else head


def _part_name(path: str, kind: str, field: str) -> str:
    """Return the caller's name of a part: an image's URL is `image_url`, a file is in one of several fields."""
    if field != "url":
        return f"{path}.{field}"
    return f"{path}.image_url" if kind == "image_url" else path


def _to_item(item: ResponseItem, path: str) -> response_item_pb2.InputItem:
    _check_fields(item, path)
    match item.type:
        case "message":
            content = [item.content] if isinstance(item.content, str) else item.content or []
            check_length(response_item_pb2.InputMessage, "content", content, f"{path}.content")
            return _message(
                _ROLES[item.role or "user"], [to_part(part, f"{path}.content.{i}") for i, part in enumerate(content)]
            )
        case "function_call" | "custom_tool_call":
            is_custom = item.type == "custom_tool_call"
            call = response_item_pb2.FunctionCallItem(
                call_id=item.call_id,
                name=name_prefix(item.namespace) + (item.name or ""),
                namespace=item.namespace or "",
                arguments=arguments_of(item.input or "") if is_custom else json_text(item.arguments),
                custom=is_custom,
            )
            return response_item_pb2.InputItem(function_call=call)
        case "function_call_output" | "custom_tool_call_output":
            result = response_item_pb2.FunctionCallOutput(
                call_id=item.call_id or "",
                output=_output_text(item.output, f"{path}.output"),
                custom=item.type == "custom_tool_call_output",
            )
            return response_item_pb2.InputItem(function_call_output=result)
        case _:
            return response_item_pb2.InputItem(reasoning={"text": _reasoning(item, path)})


def _check_fields(item: ResponseItem, path: str) -> None:
    """Raise Failure for a missing field that the item's type requires."""
    for name in _REQUIRED[item.type]:
        if getattr(item, name) is None:
            raise Failure.of_field(f"{path}.{name}", "required, but missing", Reason.MISSING_FIELD)


def _message(role: content_pb2.Role, content: Iterable[content_pb2.ContentPart]) -> response_item_pb2.InputItem:
    return response_item_pb2.InputItem(message=response_item_pb2.InputMessage(role=role, content=content))


def _output_text(output: str | list[Part] | JsonObject | None, path: str) -> str:
    """Return the text of a function's output. Raise Failure for images and files."""
    if not isinstance(output, list):
        return json_text(output)
    for index, part in enumerate(output):
        if isinstance(part, InputImagePart | InputFilePart):
            text = "must be text: a function's output has no images or files"
            raise Failure.of_field(f"{path}.{index}", text, Reason.UNSUPPORTED_MODALITY)
    return "".join(text_of(part) for part in output)


def _reasoning(item: ResponseItem, path: str) -> str:
    """Return the reasoning, or its summary if there is nothing else. Encrypted reasoning is ignored."""
    if isinstance(item.content, str):
        return item.content
    for index, part in enumerate(item.content or ()):
        if not isinstance(part, ReasoningTextPart):
            raise Failure.of_field(f"{path}.content.{index}.type", "must be reasoning_text in a reasoning item")
    return "".join(text_of(part) for part in item.content or item.summary or ())
