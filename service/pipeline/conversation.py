"""A request's messages and tools as chat templates take them.

Owns the translation from protobuf to plain values, and the checks that need the whole conversation. Pure; any thread
may call it. Knows no template.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from sluice.v1 import content_pb2, tool_pb2

from service.generation.errors import InvalidRequest, UnsupportedModality
from service.pipeline.reasoning import ReasoningMarkers

_ROLES = {
    content_pb2.ROLE_SYSTEM: "system",
    content_pb2.ROLE_USER: "user",
    content_pb2.ROLE_ASSISTANT: "assistant",
    content_pb2.ROLE_TOOL: "tool",
}
_MAX_DEPTH = 100
_TOO_DEEP = f"nested more than {_MAX_DEPTH} levels deep"
_NO_ARGUMENTS = {"type": "object", "properties": {}}


def template_messages(
    messages: Sequence[content_pb2.Message],
    *,
    default_system_prompt: str | None,
    markers: ReasoningMarkers | None,
    parse_arguments: bool,
) -> list[dict[str, Any]]:
    """The conversation, with the default system prompt unless it has its own.

    `parse_arguments` hands over the arguments of earlier calls as values, not as text. Raises UnsupportedModality for
    a part that isn't text and InvalidRequest for a tool's message that answers no earlier call.
    """
    result: list[dict[str, Any]] = []
    if default_system_prompt and messages[0].role != content_pb2.ROLE_SYSTEM:
        result.append({"role": "system", "content": default_system_prompt})
    called: dict[str, str] = {}  # call id → function name
    for index, message in enumerate(messages):
        turn: dict[str, Any] = {"role": _ROLES[message.role], "content": _text(message.content, f"messages[{index}]")}
        if message.HasField("name"):
            turn["name"] = message.name
        if message.role == content_pb2.ROLE_TOOL:
            if message.tool_call_id not in called:
                raise InvalidRequest(f"messages[{index}].tool_call_id", "no earlier message has a call of this id")
            turn["tool_call_id"] = message.tool_call_id
            turn.setdefault("name", called[message.tool_call_id])
        if message.role == content_pb2.ROLE_ASSISTANT:
            turn |= _thinking(message, turn["content"], markers)
        if message.tool_calls:
            called |= {call.id: call.function.name for call in message.tool_calls}
            turn["tool_calls"] = [_tool_call(call, parse_arguments=parse_arguments) for call in message.tool_calls]
        result.append(turn)
    return result


def template_tools(tools: Iterable[tool_pb2.Tool]) -> list[dict[str, Any]]:
    """The functions as chat templates take them. Raises InvalidRequest for parameters that are no schema."""
    result: list[dict[str, Any]] = []
    for index, tool in enumerate(tools):
        function = tool.function
        result.append(
            {
                "type": "function",
                "function": {
                    "name": function.name,
                    "description": function.description,
                    "parameters": parse_parameters(function, f"tools[{index}].function.parameters"),
                },
            }
        )
    return result


def parse_parameters(function: tool_pb2.FunctionDefinition, field: str) -> dict[str, Any]:
    """A function's schema; that of no parameters if it gives none. Raises InvalidRequest naming `field`."""
    if not function.parameters:
        return dict(_NO_ARGUMENTS)
    schema = parse_json(function.parameters, field)
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise InvalidRequest(field, "the parameters must be a JSON Schema of type object")
    return schema


def parse_json(text: str, field: str) -> Any:
    """The value of a JSON text. Raises InvalidRequest naming `field`, with line and column."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InvalidRequest(field, f"not valid JSON: {error.msg} in {place}") from error
    except ValueError as error:
        raise InvalidRequest(field, f"not valid JSON: {error}") from error
    except RecursionError as error:
        raise InvalidRequest(field, _TOO_DEEP) from error
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [inner for outer in level for inner in _children(outer)]
    if level:
        raise InvalidRequest(field, _TOO_DEEP)
    return value


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON value")


def _text(parts: Iterable[content_pb2.ContentPart], field: str) -> str:
    texts = []
    for index, part in enumerate(parts):
        kind = part.WhichOneof("part")
        if kind != "text":
            raise UnsupportedModality(f"{field}.content[{index}].{kind}", "the model takes text only")
        texts.append(part.text)
    return "".join(texts)


def _thinking(message: content_pb2.Message, content: str, markers: ReasoningMarkers | None) -> dict[str, str]:
    """An assistant's thinking and content, also where a caller sent them back in one text."""
    if message.HasField("reasoning"):
        return {"reasoning_content": message.reasoning}
    if markers is None or markers.close not in content:
        return {}
    thinking, _, answer = content.partition(markers.close)
    thinking = thinking.partition(markers.open)[2] or thinking
    return {"reasoning_content": thinking.strip(), "content": answer.lstrip("\r\n")}


def _tool_call(call: tool_pb2.ToolCall, *, parse_arguments: bool) -> dict[str, Any]:
    arguments: Any = call.function.arguments
    if parse_arguments:
        try:
            value = json.loads(arguments)
            arguments = value if isinstance(value, dict) else arguments
        except (ValueError, RecursionError):
            pass  # the model may have written it so; the template shows it as it was
    return {"id": call.id, "type": "function", "function": {"name": call.function.name, "arguments": arguments}}
