"""Claims of Open Responses, a specification of the Responses API for many servers: the fields of its objects.

They are what its compliance tests check: each required field is there and of its type, and null only where it may be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from conformance.claim import NUMBER, Claim, at, claims_into, hold, items, shown
from conformance.constraints import QUESTION, SCHEMA
from conformance.responses import ENDS, LONG, events_of
from conformance.server import Server

NULL: Final = type(None)
Fields = Mapping[str, type | tuple[type, ...]]
RESPONSE: Final[Fields] = {
    "id": str, "object": str, "created_at": int, "completed_at": (int, NULL), "status": str, "model": str,
    "incomplete_details": (dict, NULL), "previous_response_id": (str, NULL), "instructions": (str, NULL),
    "output": list, "error": (dict, NULL), "tools": list, "tool_choice": (str, dict), "truncation": str,
    "parallel_tool_calls": bool, "text": dict, "text.format.type": str, "top_p": NUMBER, "presence_penalty": NUMBER,
    "frequency_penalty": NUMBER, "top_logprobs": int, "temperature": NUMBER, "reasoning": (dict, NULL),
    "usage": (dict, NULL), "max_output_tokens": (int, NULL), "max_tool_calls": (int, NULL), "store": bool,
    "background": bool, "service_tier": str, "safety_identifier": (str, NULL), "prompt_cache_key": (str, NULL),
}  # fmt: skip
USAGE: Final[Fields] = {
    "input_tokens": int, "output_tokens": int, "total_tokens": int, "input_tokens_details.cached_tokens": int,
    "output_tokens_details.reasoning_tokens": int,
}  # fmt: skip
TOOL: Final[Fields] = {
    "type": str, "name": str, "description": (str, NULL), "parameters": (dict, NULL), "strict": (bool, NULL)
}  # fmt: skip
ITEMS: Final[Mapping[str, Fields]] = {
    "message": {"id": str, "status": str, "role": str, "content": list},
    "function_call": {"id": str, "call_id": str, "name": str, "arguments": str, "status": str},
    "reasoning": {"id": str, "summary": list},
}
PART: Final[Fields] = {"type": str, "text": str, "annotations": list}
_ITEM: Final[Fields] = {"output_index": int, "item": dict}
_IN_ITEM: Final[Fields] = {"item_id": str, "output_index": int}
_IN_PART: Final[Fields] = {**_IN_ITEM, "content_index": int}
EVENTS: Final[Mapping[str, Fields]] = {
    "output_item.added": _ITEM,
    "output_item.done": _ITEM,
    "content_part.added": {**_IN_PART, "part": dict},
    "content_part.done": {**_IN_PART, "part": dict},
    "output_text.delta": {**_IN_PART, "delta": str},
    "output_text.done": {**_IN_PART, "text": str},
    "function_call_arguments.delta": {**_IN_ITEM, "delta": str},
    "function_call_arguments.done": {**_IN_ITEM, "arguments": str},
}
CHOICES: Final[Mapping[str, frozenset[str]]] = {  # of fields that may be left out, but not be null
    "text.verbosity": frozenset({"low", "medium", "high"}),
    "truncation": frozenset({"auto", "disabled"}),
}
SOURCE: Final = "Open Responses (openresponses.org)"
CLAIMS: list[Claim[Server]] = []
claim = claims_into(CLAIMS)


def check(value: Any, fields: Fields) -> None:
    """Raise BrokenError unless the value has all of the fields, each of its type."""
    for path, kind in fields.items():
        at(value, path, kind)


def check_response(response: Any) -> None:
    """Raise BrokenError unless a response has the fields of its object, and its items those of theirs."""
    check(response, RESPONSE)
    at(response, "metadata")
    for path, allowed in CHOICES.items():
        *outer, name = path.split(".")
        inside = at(response, outer[0]) if outer else response
        if name in inside:
            hold(inside[name] in allowed, f"{path} is {shown(inside[name])}, none of {sorted(allowed)}")
    if response["usage"] is not None:
        check(response["usage"], USAGE)
    if response["reasoning"] is not None:
        check(response["reasoning"], {"effort": (str, NULL), "summary": (str, NULL)})
    for tool in response["tools"]:
        check(tool, TOOL)
    for item in response["output"]:
        check_item(item)


def check_item(item: Any) -> None:
    """Raise BrokenError unless an item has the fields of its type."""
    kind = at(item, "type", str)
    hold(kind in ITEMS, f"an item has the type {kind!r}")
    check(item, ITEMS[kind])
    for part in item["content"] if kind == "message" else ():
        check(part, PART)


@claim(
    "open.response",
    "A response has the fields of Open Responses, none null that may not be",
    f"{SOURCE}, ResponseResource",
)
def _(server: Server) -> str:
    response = server.ask()
    check_response(response)
    hold(items(response, "output"), shown(response))
    return shown(response)


@claim(
    "open.messages",
    "Messages of system, user and assistant, each of the type message, are answered",
    f"{SOURCE}, ItemParam",
)
def _(server: Server) -> str:
    roles = ("system", "user", "assistant", "user")
    messages = [{"type": "message", "role": role, "content": QUESTION} for role in roles]
    response = server.ask(input=messages)
    check_response(response)
    hold(response["output"] and response["status"] in ENDS, shown(response))
    return shown(response["output"])


@claim(
    "open.stream", "Each event has the fields of its type, and its response those of one", f"{SOURCE}, streaming events"
)
def _(server: Server) -> str:
    events = events_of(server)
    for event in events:
        name = event["type"].removeprefix("response.")
        check(event, EVENTS.get(name, {}))
        if "response" in event:
            check_response(event["response"])
        elif name.startswith("output_item."):
            check_item(event["item"])
        elif name.startswith("content_part.") and at(event, "part.type") == "output_text":
            check(event["part"], PART)
    return shown(events[-1])


@claim(
    "open.tools",
    "A response repeats a function with all of its fields, and calls it as an item",
    f"{SOURCE}, FunctionTool",
)
def _(server: Server) -> str:
    tool = {"type": "function", "name": "weather", "parameters": SCHEMA}
    fields = {"input": QUESTION, "tools": [tool], "tool_choice": "required", **LONG}
    response = server.ask(**fields)
    check_response(response)
    hold(at(response, "output.0.type") == "function_call", shown(response["output"]))
    for event in events_of(server, **fields):
        check(event, EVENTS.get(event["type"].removeprefix("response."), {}))
    return shown(response["tools"])
