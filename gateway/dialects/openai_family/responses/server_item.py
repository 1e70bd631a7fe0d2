"""Items of tools that OpenAI's server runs, which a conversation that was begun there has.

Those with a result become a call of a function and its output, so that the model sees both. Those without one, such as
a web search, whose findings are in the message after it, are left out. Those that can't be read here are rejected.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import orjson
from sluice.v1 import response_item_pb2

from gateway.dialects.openai_family.chat.message import JsonObject
from gateway.dialects.seam.failure import Failure, Reason

LEFT_OUT: Final = frozenset(
    {
        "web_search_call",
        "image_generation_call",
        "mcp_list_tools",
        "mcp_approval_request",
        "mcp_approval_response",
        "tool_search_call",
        "tool_search_output",
        "program",
        "program_output",
    }
)
_REJECTED: Final = {
    "compaction": "its content is encrypted by OpenAI's server; send the items that it replaces",
    "compaction_trigger": "conversations are not compacted; leave it out, and use truncation: auto for long ones",
    "computer_call": "results of calls have no images; offer its actions as functions, and send screenshots",
    "computer_call_output": "results of calls have no images; send the screenshot in a message as input_image",
    "additional_tools": "put these tools into tools",
}
_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME: Final = 64


def check_supported(kind: str, path: str) -> None:
    """Raise Failure for an item that can't be read here, naming its field and what to do."""
    if kind in _REJECTED:
        text = f"'{kind}' is not supported: {_REJECTED[kind]}"
        raise Failure.of_field(f"{path}.type", text, Reason.UNSUPPORTED_FIELD)


def mcp_pair(call_id: str, name: str, arguments: str, output: str) -> list[response_item_pb2.InputItem]:
    """Return the call of a tool of an MCP server, and its output."""
    return _pair(call_id, _NAME.sub("_", name)[:_MAX_NAME] or "mcp", arguments, output)


def code_pair(
    call_id: str, code: str | None, outputs: Sequence[JsonObject] | None
) -> list[response_item_pb2.InputItem]:
    """Return the call of the sandbox for Python, and what the code printed."""
    logs = "".join(_text(each, "logs") for each in outputs or ())
    return _pair(call_id, "code_interpreter", orjson.dumps({"code": code or ""}).decode(), logs)


def search_pair(
    call_id: str, queries: Sequence[str] | None, results: Sequence[JsonObject] | None
) -> list[response_item_pb2.InputItem]:
    """Return the search of files and its findings; nothing if the item doesn't include them."""
    if not results:
        return []
    found = [f"{_text(each, 'filename')}: {_text(each, 'text')}" for each in results]
    return _pair(call_id, "file_search", orjson.dumps({"queries": queries or []}).decode(), "\n\n".join(found))


def error_text(error: msgspec.Raw) -> str:
    """Return the error of a call of an MCP server as text."""
    value: Any = orjson.loads(bytes(error) or b"null")
    return value if isinstance(value, str) else "" if value is None else orjson.dumps(value).decode()


def _pair(call_id: str, name: str, arguments: str, output: str) -> list[response_item_pb2.InputItem]:
    call = response_item_pb2.FunctionCallItem(call_id=call_id, name=name, arguments=arguments)
    result = response_item_pb2.FunctionCallOutput(call_id=call_id, output=output)
    return [
        response_item_pb2.InputItem(function_call=call),
        response_item_pb2.InputItem(function_call_output=result),
    ]


def _text(fields: JsonObject, name: str) -> str:
    """Return a field that is a text; empty for anything else."""
    value: Any = orjson.loads(bytes(fields.get(name, b"null")))
    return value if isinstance(value, str) else ""
