"""The tools and tool calls of a chat in JSON, as chat completions have them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from sluice.v1 import tool_pb2

from service.contract.inference.chat_messages import of_type
from service.contract.inference.parameters import Given
from service.generation.errors import InvalidRequest

_MODES: Final = {
    "none": tool_pb2.TOOL_CHOICE_MODE_NONE,
    "auto": tool_pb2.TOOL_CHOICE_MODE_AUTO,
    "required": tool_pb2.TOOL_CHOICE_MODE_REQUIRED,
}
_MAX_TOOLS: Final = 128  # the contract's limit, checked before the conversion


def to_tools(given: Given) -> Iterator[tool_pb2.Tool]:
    """Yield the tools of a JSON list, or of its text. Raise InvalidRequest."""
    tools = of_type(_parsed(given, "must be a JSON list of tools"), list, "a JSON list of tools", given.path)
    if len(tools) > _MAX_TOOLS:
        raise InvalidRequest(given.path, f"must have at most {_MAX_TOOLS} tools, not {len(tools)}")
    for index, tool in enumerate(tools):
        path = f"{given.path}[{index}]"
        try:
            yield tool_pb2.Tool(function=_to_function(_function_of(tool, path), f"{path}.function"))
        except UnicodeError as error:
            raise InvalidRequest(path, "has a text that is not Unicode") from error


def to_tool_choice(given: Given) -> tool_pb2.ToolChoice:
    """Return the choice of a mode, or of the function that an object or its JSON text names. Raise InvalidRequest."""
    if isinstance(given.value, str) and (mode := _MODES.get(given.value)) is not None:
        return tool_pb2.ToolChoice(mode=mode)
    choice = _parsed(given, f"must be one of {', '.join(_MODES)}, or name a function")
    name = of_type(_function_of(choice, given.path).get("name"), str, "a text", f"{given.path}.function.name")
    return tool_pb2.ToolChoice(function_name=name)


def to_call_list(calls: Iterable[tool_pb2.ToolCall]) -> str:
    """Return the JSON list of tool calls."""
    written = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.function.name, "arguments": call.function.arguments},
        }
        for call in calls
    ]
    return json.dumps(written, ensure_ascii=False)


def _parsed(given: Given, requirement: str) -> Any:
    """Return a value given as such or as its JSON text. Raise InvalidRequest with the requirement."""
    if not isinstance(given.value, str):
        return given.value
    try:
        return json.loads(given.value)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(given.path, requirement) from error


def _function_of(tool: Any, path: str) -> dict[str, Any]:
    """Return the function of a tool or a choice. Raise InvalidRequest."""
    tool = of_type(tool, dict, "an object", path)
    if tool.get("type") != "function":
        raise InvalidRequest(f"{path}.type", "must be function")
    function: dict[str, Any] = of_type(tool.get("function"), dict, "an object", f"{path}.function")
    return function


def _to_function(given: dict[str, Any], path: str) -> tool_pb2.FunctionDefinition:
    """Return the definition of a function. Raise InvalidRequest."""
    function = tool_pb2.FunctionDefinition(name=of_type(given.get("name"), str, "a text", f"{path}.name"))
    if (description := given.get("description")) is not None:
        function.description = of_type(description, str, "a text", f"{path}.description")
    if (parameters := given.get("parameters")) is not None:
        function.parameters = json.dumps(of_type(parameters, dict, "an object", f"{path}.parameters"))
    if (strict := given.get("strict")) is not None:
        function.strict = of_type(strict, bool, "true or false", f"{path}.strict")
    return function
