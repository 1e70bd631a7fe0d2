"""Items of a response's input, and their mapping to the contract.

An item of an answer can be sent back unchanged, including fields that a client has added: fields that its type doesn't
have are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias

import msgspec
from sluice.v1 import content_pb2, response_item_pb2

from gateway.dialects.openai_family.chat.message import JsonObject, json_text
from gateway.dialects.openai_family.parameters.custom_input import arguments_of
from gateway.dialects.openai_family.responses.known_item import (
    Action,
    Operation,
    known_call_item,
    known_output_item,
    patch_output,
)
from gateway.dialects.openai_family.responses.part import (
    InputFilePart,
    InputImagePart,
    Part,
    ReasoningTextPart,
    SummaryTextPart,
    text_of,
    to_part,
)
from gateway.dialects.openai_family.responses.server_item import (
    LEFT_OUT,
    check_supported,
    code_pair,
    error_text,
    mcp_pair,
    search_pair,
)
from gateway.dialects.openai_family.responses.tool_kind import name_prefix
from gateway.dialects.seam.contract_limit import check_length
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.json_body import decode_within

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
    "local_shell_call": ("call_id", "action"),
    "local_shell_call_output": ("output",),
    "shell_call": ("call_id", "action"),
    "shell_call_output": ("call_id", "output"),
    "apply_patch_call": ("call_id", "operation"),
    "apply_patch_call_output": ("call_id", "status"),
    "mcp_call": ("name",),
    "item_reference": ("id",),
}
_KINDS: Final = "message|function_call|function_call_output|reasoning|reference"  # the contract's
_ITEM: Final = re.compile(rf"^input\.(\d+)(?:\.({_KINDS}))?(?:\.(.*))?$")
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
        "item_reference",
        "local_shell_call",
        "local_shell_call_output",
        "shell_call",
        "shell_call_output",
        "apply_patch_call",
        "apply_patch_call_output",
        "mcp_call",
        "mcp_list_tools",
        "mcp_approval_request",
        "mcp_approval_response",
        "code_interpreter_call",
        "file_search_call",
        "web_search_call",
        "image_generation_call",
        "tool_search_call",
        "tool_search_output",
        "program",
        "program_output",
        "additional_tools",
        "compaction",
        "compaction_trigger",
        "computer_call",
        "computer_call_output",
    ] = "message"
    id: str | None = None
    role: Literal["user", "assistant", "system", "developer"] | None = None
    content: str | list[Part] | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: str | JsonObject | None = None
    input: str | None = None
    output: str | list[JsonObject] | JsonObject | None = None
    summary: list[SummaryTextPart] | None = None
    action: Action | None = None
    operation: Operation | None = None
    status: str | None = None
    code: str | None = None
    outputs: list[JsonObject] | None = None
    queries: list[str] | None = None
    results: list[JsonObject] | None = None
    error: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


_PARTS: Final = msgspec.json.Decoder(list[Part])
_KINDS_OF_ARGUMENTS: Final = {  # the caller's fields that become arguments, by the item's type
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
}

Input: TypeAlias = str | list[ResponseItem]


def to_items(given: Input) -> list[response_item_pb2.InputItem]:
    """Return the contract's items; a string is a user's message. Raise Failure for fields that don't fit the type."""
    if isinstance(given, str):
        return [_message(content_pb2.ROLE_USER, [content_pb2.ContentPart(text=given)])]
    calls = _shell_calls(given)
    return [made for index, item in enumerate(given) for made in _to_items(item, index, calls)]


def item_name(given: Input, path: str) -> str | None:
    """Return the caller's name of an item's dotted `path`: `input.0.message.role` → `input.0.role`; None for others."""
    match = _ITEM.match(path)
    if match is None:
        return None
    if isinstance(given, str):
        return "input"
    index, kind, rest = _given_index(given, int(match[1])), match[2], match[3] or ""
    item, head = given[index], f"input.{index}"
    if item.type in _KINDS_OF_ARGUMENTS and rest == "arguments":
        rest = _KINDS_OF_ARGUMENTS[item.type]
    elif kind == "reasoning" or (rest.startswith("content.") and isinstance(item.content, str)):
        rest = "content"
    elif (part := _PART.match(rest)) is not None:
        rest = _part_name(part[1], part[2], part[3] or "url")
    return f"{head}.{rest}" if rest else head


def _part_name(path: str, kind: str, field: str) -> str:
    """Return the caller's name of a part: an image's URL is `image_url`, a file is in one of several fields."""
    if field != "url":
        return f"{path}.{field}"
    return f"{path}.image_url" if kind == "image_url" else path


def _given_index(given: list[ResponseItem], index: int) -> int:
    """Return the index of the caller's item from which the contract's item at `index` was made."""
    calls = _shell_calls(given)
    for position, item in enumerate(given):
        index -= len(_to_items(item, position, calls))
        if index < 0:
            return position
    return len(given) - 1


def _shell_calls(given: list[ResponseItem]) -> Mapping[str | None, str | None]:
    """Return the ids of the calls of local_shell by the ids of their items, which results may have instead."""
    return {item.id: item.call_id for item in given if item.type == "local_shell_call"}


def _to_items(
    item: ResponseItem, index: int, calls: Mapping[str | None, str | None]
) -> list[response_item_pb2.InputItem]:
    """Return the contract's items for one of the caller's: usually one. `calls` are those of local_shell."""
    path = f"input.{index}"
    if item.type == "message" and item.id and item.role is None and item.content is None:
        item = msgspec.structs.replace(item, type="item_reference")  # whose type may be left out
    if item.type == "local_shell_call_output" and item.call_id is None:
        item = msgspec.structs.replace(item, call_id=calls.get(item.id) or item.id)
    check_supported(item.type, path)
    _check_fields(item, path)
    call_id = item.call_id or item.id or f"item_{index}"
    match item.type:
        case _ if item.type in LEFT_OUT:
            return []
        case "item_reference":
            return [response_item_pb2.InputItem(reference=response_item_pb2.ItemReference(id=item.id))]
        case "mcp_call":
            output = json_text(item.output) if not isinstance(item.output, list) else ""
            return mcp_pair(call_id, item.name or "", json_text(item.arguments), output or error_text(item.error))
        case "code_interpreter_call":
            return code_pair(call_id, item.code, item.outputs)
        case "file_search_call":
            return search_pair(call_id, item.queries, item.results)
        case _:
            return [_to_item(item, path)]


def _to_item(item: ResponseItem, path: str) -> response_item_pb2.InputItem:
    match item.type:
        case "local_shell_call" | "shell_call" | "apply_patch_call":
            kind = item.type.removesuffix("_call")
            return known_call_item(kind, item.call_id or "", item.action, item.operation, path)
        case "local_shell_call_output" | "shell_call_output" | "apply_patch_call_output":
            kind = item.type.removesuffix("_call_output")
            return known_output_item(kind, item.call_id or "", _known_output(item, f"{path}.output"))
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


def _known_output(item: ResponseItem, path: str) -> str:
    """Return the output of a call of a tool of OpenAI's API, in the form of the contract. Raise Failure."""
    if item.type == "apply_patch_call_output":
        return patch_output(item.status or "", None if item.output is None else _output_text(item.output, path))
    if item.type == "local_shell_call_output":
        return _output_text(item.output, path)
    if not isinstance(item.output, list):
        raise Failure.of_field(path, "must be a list", Reason.INVALID_TYPE)
    return msgspec.json.encode(item.output).decode()


def _check_fields(item: ResponseItem, path: str) -> None:
    """Raise Failure for a missing field that the item's type requires."""
    for name in _REQUIRED.get(item.type, ()):
        if getattr(item, name) is None:
            raise Failure.of_field(f"{path}.{name}", "required, but missing", Reason.MISSING_FIELD)


def _message(role: content_pb2.Role, content: Iterable[content_pb2.ContentPart]) -> response_item_pb2.InputItem:
    return response_item_pb2.InputItem(message=response_item_pb2.InputMessage(role=role, content=content))


def _output_text(output: str | list[JsonObject] | JsonObject | None, path: str) -> str:
    """Return the text of a function's output. Raise Failure for images and files."""
    if not isinstance(output, list):
        return json_text(output)
    parts = decode_within(msgspec.json.encode(output), _PARTS, path)
    for index, part in enumerate(parts):
        if isinstance(part, InputImagePart | InputFilePart):
            text = "must be text: a function's output has no images or files"
            raise Failure.of_field(f"{path}.{index}", text, Reason.UNSUPPORTED_MODALITY)
    return "".join(text_of(part) for part in parts)


def _reasoning(item: ResponseItem, path: str) -> str:
    """Return the reasoning, or its summary if there is nothing else. Encrypted reasoning is ignored."""
    if isinstance(item.content, str):
        return item.content
    for index, part in enumerate(item.content or ()):
        if not isinstance(part, ReasoningTextPart):
            raise Failure.of_field(f"{path}.content.{index}.type", "must be reasoning_text in a reasoning item")
    return "".join(text_of(part) for part in item.content or item.summary or ())
