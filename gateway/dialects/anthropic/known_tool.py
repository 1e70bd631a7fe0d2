"""The tools that Anthropic's API defines, by their dated types such as `bash_20250124`.

Those that the client runs become functions with the parameters that their documentation has. Those that Anthropic's
server runs are not offered to the model: clients send them along with their own tools.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import orjson
from sluice.v1 import tool_pb2

_DATED: Final = re.compile(r"^([a-z0-9_]+?)_\d{8}$")
_SERVERS: Final = frozenset(
    {
        "advisor",
        "code_execution",
        "mcp_toolset",
        "tool_search_tool_bm25",
        "tool_search_tool_regex",
        "web_fetch",
        "web_search",
    }
)


def _schema(required: Sequence[str], **properties: Any) -> str:
    return orjson.dumps({"type": "object", "properties": properties, "required": required}).decode()


def _commands(*names: str) -> dict[str, Any]:
    return {"type": "string", "enum": names}


_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "integer"}
_RANGE: Final = {"type": "array", "items": _NUMBER, "minItems": 2, "maxItems": 2}
_EDITS: Final = {  # the parameters of all commands on files
    "path": _TEXT,
    "view_range": _RANGE,
    "file_text": _TEXT,
    "old_str": _TEXT,
    "new_str": _TEXT,
    "insert_line": _NUMBER,
    "insert_text": _TEXT,
}
_FUNCTIONS: Final = {  # a type without its date → the description and the schema of the function
    "bash": (
        "Run a command in a persistent bash session.",
        _schema([], command=_TEXT, restart={"type": "boolean"}),
    ),
    "text_editor": (
        "View, create and edit text files.",
        _schema(
            ["command", "path"],
            command=_commands("view", "create", "str_replace", "insert"),
            **_EDITS,
        ),
    ),
    "memory": (
        "View, create, edit and delete files below /memories, which persist between conversations.",
        _schema(
            ["command"],
            command=_commands("view", "create", "str_replace", "insert", "delete", "rename"),
            **_EDITS,
            old_path=_TEXT,
            new_path=_TEXT,
        ),
    ),
}


class _AnyTool(msgspec.Struct):
    """A tool of any kind, without the fields of its kind."""

    type: str | None = None
    name: str | None = None
    strict: bool | None = None


_BODY: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TOOLS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_TOOL: Final = msgspec.json.Decoder(_AnyTool)


def is_known(kind: str | None) -> bool:
    """Return whether the API defines a tool of this type that can be offered or left out."""
    return is_servers(kind) or _undated(kind) in _FUNCTIONS


def is_servers(kind: str | None) -> bool:
    """Return whether Anthropic's server runs the tool."""
    return _undated(kind) in _SERVERS


def known_function(kind: str | None, name: str, *, strict: bool | None) -> tool_pb2.Tool | None:
    """Return the contract's function for a tool that the client runs; None for another type."""
    if (found := _FUNCTIONS.get(_undated(kind))) is None:
        return None
    description, schema = found
    return tool_pb2.Tool(
        function=tool_pb2.FunctionDefinition(name=name, description=description, parameters=schema, strict=strict)
    )


def without_own_fields(body: bytes) -> bytes:
    """Return a body whose known tools have no fields but those of all tools. Raise msgspec.MsgspecError."""
    fields = _BODY.decode(body)
    tools = _TOOLS.decode(fields.get("tools", b"[]"))
    fields["tools"] = msgspec.Raw(msgspec.json.encode([_reduced(tool) for tool in tools]))
    return msgspec.json.encode(fields)


def _reduced(tool: msgspec.Raw) -> msgspec.Raw:
    any_tool = _TOOL.decode(tool)
    if not is_known(any_tool.type):
        return tool
    kept = {"type": any_tool.type, "name": any_tool.name or any_tool.type, "strict": any_tool.strict}
    return msgspec.Raw(orjson.dumps(kept))


def _undated(kind: str | None) -> str:
    match = _DATED.match(kind or "")
    return match[1] if match else kind or ""
