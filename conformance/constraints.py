"""Claims about output formats and tools in the dialects of OpenAI, Databricks and Azure, independent of the model."""

from __future__ import annotations

from typing import Any

from conformance.answers import chunks_of, parts_of
from conformance.claim import BrokenError, Claim, InapplicableError, at, claims_into, hold, items, parsed, shown
from conformance.server import Server

CITIES = ["Oslo", "Rome"]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": CITIES}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
QUESTION = "How is the weather in Rome for the next 3 days? Ask for it."
JSON_QUESTION = 'Write a JSON object with the keys "city" and "days".'
STRICT = ("openai", "databricks")
CLAIMS: list[Claim[Server]] = []
claim = claims_into(CLAIMS)


def check_fits(value: Any) -> None:
    """Raise BrokenError unless the value matches SCHEMA."""
    fits = isinstance(value, dict) and set(value) == {"city", "days"}
    fits = fits and value["city"] in CITIES and isinstance(value["days"], int) and not isinstance(value["days"], bool)
    hold(fits, f"{shown(value)} does not match the schema")


def _tool(name: str, server: Server) -> dict[str, Any]:
    strict = {"strict": True} if server.dialect.name in STRICT else {}
    function = {"name": name, "description": f"Tells the {name} of a city.", "parameters": SCHEMA, **strict}
    return {"type": "function", "function": function}


def _tool_request(server: Server, choice: Any) -> dict[str, Any]:
    """Return the fields of a request with two tools and this tool_choice."""
    return {
        "messages": [{"role": "user", "content": QUESTION}],
        "tools": [_tool("weather", server), _tool("traffic", server)],
        "tool_choice": choice,
        "max_tokens": 256,
    }


def _named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def _check_calls(server: Server, calls: list[Any], names: set[str], reason: Any) -> str:
    """Check calls of these functions and return the observation. Arguments may be cut off with the answer.

    Azure's reference does not promise arguments that match the schema.
    """
    for call in calls:
        hold(at(call, "id", str), f"a call has no id: {shown(call)}")
        hold(at(call, "type") == "function", shown(call))
        hold(at(call, "function.name", str) in names, f"{shown(call)} is none of {sorted(names)}")
    if reason == "length":
        raise InapplicableError(f"the answer was cut off within a call: {shown(calls)}")
    for call in calls:
        arguments = at(call, "function.arguments", str)
        if server.dialect.name in STRICT:
            check_fits(parsed(arguments))
    return shown(calls)


@claim("format.json_object", "json_object gives a JSON object", "response_format")
def _(server: Server) -> str:
    messages = [{"role": "user", "content": JSON_QUESTION}]
    answer = server.ask(messages=messages, response_format={"type": "json_object"}, max_tokens=256)
    text, reason = at(answer, "choices.0.message.content", str), at(answer, "choices.0.finish_reason")
    hold(text.lstrip()[:1] == "{", f"the answer is {text!r}")
    try:
        value = parsed(text)
    except BrokenError:
        if reason == "length":
            raise InapplicableError(f"the answer was cut off: {text!r}") from None
        raise
    hold(isinstance(value, dict), f"the answer is {text!r}")
    return repr(text)


@claim("format.json_schema", "json_schema with strict gives JSON of the schema", "response_format", STRICT)
def _(server: Server) -> str:
    wanted = {"type": "json_schema", "json_schema": {"name": "trip", "schema": SCHEMA, "strict": True}}
    messages = [{"role": "user", "content": JSON_QUESTION}]
    answer = server.ask(messages=messages, response_format=wanted, max_tokens=256)
    text = at(answer, "choices.0.message.content", str)
    if at(answer, "choices.0.finish_reason") == "length" and not text.rstrip().endswith("}"):
        raise InapplicableError(f"the answer was cut off: {text!r}")
    check_fits(parsed(text))
    return repr(text)


@claim("tools.required", "required calls a function, a strict one with arguments of its schema", "tool_choice")
def _(server: Server) -> str:
    answer = server.ask(**_tool_request(server, "required"))
    reason = at(answer, "choices.0.finish_reason")
    calls = items(answer, "choices.0.message.tool_calls")
    seen = _check_calls(server, calls, {"weather", "traffic"}, reason)
    hold(reason == "tool_calls", f"finish_reason is {shown(reason)}")
    return seen


@claim("tools.named", "A function that tool_choice names is called, and no other", "tool_choice")
def _(server: Server) -> str:
    answer = server.ask(**_tool_request(server, _named("traffic")))
    calls = items(answer, "choices.0.message.tool_calls")
    return _check_calls(server, calls, {"traffic"}, at(answer, "choices.0.finish_reason"))


@claim("tools.none", "tool_choice none calls nothing", "tool_choice")
def _(server: Server) -> str:
    answer = server.ask(**_tool_request(server, "none") | {"max_tokens": 32})
    calls = at(answer, "choices.0.message", dict).get("tool_calls")
    hold(not calls, f"tool_calls {shown(calls)}")
    return shown(answer["choices"][0]["message"])


@claim("tools.one", "With parallel_tool_calls false there is one call", "parallel_tool_calls", ("openai",))
def _(server: Server) -> str:
    answer = server.ask(**_tool_request(server, "required"), parallel_tool_calls=False)
    calls = items(answer, "choices.0.message.tool_calls")
    hold(len(calls) == 1, shown(calls))
    return shown(calls)


@claim("tools.result", "A conversation may contain a tool call and its result", "messages.tool_calls")
def _(server: Server) -> str:
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "weather", "arguments": '{"city":"Rome","days":3}'},
    }
    messages = [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "Rain."},
    ]
    answer = server.ask(messages=messages, tools=[_tool("weather", server)], max_tokens=8)
    return shown(at(answer, "choices.0.message", dict))


@claim("tools.stream", "A streamed call has id and name first, then pieces of its arguments", "stream: tool_calls")
def _(server: Server) -> str:
    parts = parts_of(chunks_of(server.events(**_tool_request(server, "required"))))
    calls: dict[int, Any] = {}
    for part in parts:
        for piece in at(part, "delta", dict).get("tool_calls") or ():
            index = at(piece, "index", int)
            if index not in calls:
                hold(at(piece, "id", str) and at(piece, "function.name", str), f"the first piece is {shown(piece)}")
                calls[index] = piece | {"function": {"name": piece["function"]["name"], "arguments": ""}}
            calls[index]["function"]["arguments"] += at(piece, "function", dict).get("arguments") or ""
    hold(calls, f"no call was streamed: {shown(parts)}")
    hold(list(calls) == list(range(len(calls))), f"indexes {list(calls)}")
    reasons = [part["finish_reason"] for part in parts if part.get("finish_reason")]
    seen = _check_calls(server, list(calls.values()), {"weather", "traffic"}, reasons[-1] if reasons else None)
    hold(reasons == ["tool_calls"], f"finish_reasons {reasons}")
    return seen
