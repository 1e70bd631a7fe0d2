"""A tool for the tests of preparations."""

from __future__ import annotations

import json
from typing import Any

from service.generation.prompts.conversation import Function, ToolChoice, ToolMode

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 8}, "days": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["city", "days"],
}
REQUIRED = ToolChoice(ToolMode.REQUIRED)
NAMED = ToolChoice(ToolMode.REQUIRED, "weather")
NONE = ToolChoice(ToolMode.NONE)


def function(name: str, parameters: str = "", index: int = 0, **fields: Any) -> Function:
    """Return the function of tool number `index` of a request."""
    return Function(name, parameters=parameters, field=f"tools[{index}].function", **fields)


WEATHER = function("weather", json.dumps(SCHEMA))
PING = function("ping", index=1)
