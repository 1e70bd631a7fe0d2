"""Claims about Anthropic's Messages API."""

from __future__ import annotations

from typing import Any

import httpx

from conformance.claim import Claim, InapplicableError, at, claims_into, hold, items, parsed, shown
from conformance.constraints import QUESTION, SCHEMA, check_fits
from conformance.server import Server

GREEDY: dict[str, Any] = {"temperature": 0, "max_tokens": 32}
ENDS = {"end_turn", "max_tokens"}
CLAIMS: list[Claim[Server]] = []
claim = claims_into(CLAIMS)


def check_error(answer: httpx.Response) -> None:
    """Raise BrokenError if an error has another form, or a type that doesn't match its status."""
    body = parsed(answer.text)
    hold(at(body, "type") == "error", f"type is {shown(body['type'])}")
    kind = at(body, "error.type", str)
    wanted = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error"}
    hold(kind == wanted.get(answer.status_code, kind), f"error.type is {kind!r} with status {answer.status_code}")
    at(body, "error.message", str)


def text_of(message: Any) -> str:
    """Return the text of all blocks."""
    return "".join(at(block, "text", str) for block in at(message, "content", list) if block.get("type") == "text")


def _tools(choice: Any) -> dict[str, Any]:
    tools = [
        {"name": name, "description": f"Tells the {name} of a city.", "input_schema": SCHEMA, "strict": True}
        for name in ("weather", "traffic")
    ]
    messages = [{"role": "user", "content": QUESTION}]
    return {"messages": messages, "tools": tools, "tool_choice": choice, "max_tokens": 256}


def _calls(message: Any) -> list[Any]:
    return [block for block in at(message, "content", list) if block.get("type") == "tool_use"]


def _check_calls(message: Any, names: set[str]) -> str:
    calls = _calls(message)
    hold(calls, f"no tool is used: {shown(message)}")
    for call in calls:
        hold(at(call, "id", str) and at(call, "name", str) in names, shown(call))
    if at(message, "stop_reason") == "max_tokens":
        raise InapplicableError(f"the answer was cut off: {shown(calls)}")
    for call in calls:
        check_fits(at(call, "input"))
    hold(message["stop_reason"] == "tool_use", f"stop_reason is {shown(message['stop_reason'])}")
    return shown(calls)


@claim("message.shape", "A message has id, type, role, model, content blocks, stop_reason and usage", "Message")
def _(server: Server) -> str:
    message = server.ask(max_tokens=4)
    hold(at(message, "id", str), "id is empty")
    hold((at(message, "type"), at(message, "role")) == ("message", "assistant"), shown(message))
    at(message, "model", str)
    hold(at(message, "stop_reason") in ENDS, f"stop_reason is {shown(message['stop_reason'])}")
    hold(at(message, "stop_sequence") is None, shown(message))
    hold(all(at(block, "type", str) for block in at(message, "content", list)), shown(message))
    for name in ("input_tokens", "output_tokens"):
        hold(at(message, f"usage.{name}", int) >= 0, shown(message["usage"]))
    return shown(message)


@claim("message.max_tokens", "max_tokens bounds the answer, and stop_reason is max_tokens", "max_tokens")
def _(server: Server) -> str:
    message = server.ask(max_tokens=2)
    count, reason = at(message, "usage.output_tokens", int), at(message, "stop_reason")
    hold(count <= 2, f"{count} tokens where 2 were allowed")
    if reason == "end_turn":
        raise InapplicableError("the model ended its answer before")
    hold(reason == "max_tokens", f"stop_reason is {shown(reason)}")
    return f"{count} tokens, {reason}"


@claim("message.stop_sequences", "A stop sequence ends the answer before it, and is echoed", "stop_sequences")
def _(server: Server) -> str:
    text = _greedy_text(server)
    stop = text[3:6]
    if len(stop) < 3 or not stop.strip():
        raise InapplicableError(f"the model's answer is too short: {text!r}")
    message = server.ask(**GREEDY, stop_sequences=[stop])
    hold(text_of(message) == text.partition(stop)[0], f"{text_of(message)!r} with the stop {stop!r}, {text!r} without")
    ended = (at(message, "stop_reason"), at(message, "stop_sequence"))
    hold(ended == ("stop_sequence", stop), f"stop_reason and stop_sequence are {shown(ended)}")
    return shown(ended)


def _greedy_text(server: Server) -> str:
    first, second = (text_of(server.ask(**GREEDY)) for _ in range(2))
    if first != second:
        raise InapplicableError(f"greedy answers to one request differ: {shown([first, second])}")
    return first


@claim("message.system", "system, a text or blocks, is part of the prompt", "system")
def _(server: Server) -> str:
    system = "Answer briefly, and in French only."
    counts = [_count(server, system=each) for each in (None, system, [_block(system)])]
    hold(counts[0] < counts[1] == counts[2], f"input_tokens {counts}")
    return f"input_tokens {counts}"


def _count(server: Server, **fields: Any) -> int:
    """Return the number of tokens of a prompt."""
    body = server.body({"max_tokens": None, "temperature": None, **fields})
    return int(at(server.post(f"{server.path()}/count_tokens", body), "input_tokens", int))


def _block(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


@claim("message.blocks", "A list of one text block is the same prompt as the text", "messages.content")
def _(server: Server) -> str:
    text = "Hello there!"
    counts = [_count(server, messages=[{"role": "user", "content": each}]) for each in (text, [_block(text)])]
    hold(counts[0] == counts[1] > 0, f"input_tokens {counts}")
    return f"{counts[0]} tokens"


@claim("message.continued", "A last message of the assistant is continued", "messages")
def _(server: Server) -> str:
    messages = [*server.dialect.good["messages"], {"role": "assistant", "content": "One, two,"}]
    return text_of(server.ask(messages=messages, max_tokens=8))


def _events(server: Server, **fields: Any) -> list[Any]:
    """Return the data of a stream's events, without pings. Raise BrokenError if a name and its type differ."""
    events = []
    for event in server.events(**fields):
        data = parsed(event.data)
        hold(event.name == at(data, "type"), f"the event {event.name!r} has the type {shown(data['type'])}")
        events.append(data)
    events = [event for event in events if event["type"] != "ping"]
    hold(events, "the stream has no event")
    return events


@claim("stream.order", "message_start, then each block's start, deltas and stop, message_delta, message_stop", "stream")
def _(server: Server) -> str:
    types = [event["type"] for event in _events(server, max_tokens=8)]
    hold(types[0] == "message_start" and types[-2:] == ["message_delta", "message_stop"], shown(types))
    is_open = False
    for each in types[1:-2]:
        if each == "content_block_delta":
            hold(is_open, shown(types))
        else:
            hold(each == ("content_block_stop" if is_open else "content_block_start"), shown(types))
            is_open = not is_open
    hold(not is_open, f"a block has no end: {shown(types)}")
    return shown(types)


@claim("stream.start", "message_start has the message, with empty content and without a stop_reason", "stream")
def _(server: Server) -> str:
    message = at(_events(server, max_tokens=4)[0], "message", dict)
    hold((at(message, "type"), at(message, "role")) == ("message", "assistant"), shown(message))
    hold(at(message, "content") == [] and at(message, "stop_reason") is None, shown(message))
    hold(at(message, "id", str) and at(message, "model", str), shown(message))
    hold(at(message, "usage.input_tokens", int) > 0, shown(message["usage"]))
    return shown(message)


@claim("stream.delta", "message_delta has the stop_reason and the tokens of the whole answer", "stream")
def _(server: Server) -> str:
    delta = _events(server, max_tokens=8)[-2]
    hold(at(delta, "delta.stop_reason") in ENDS, shown(delta))
    hold(0 < at(delta, "usage.output_tokens", int) <= 8, shown(delta))
    return shown(delta)


@claim("stream.same", "A stream's text deltas join to the text of the whole message", "stream")
def _(server: Server) -> str:
    whole = _greedy_text(server)
    deltas = [event["delta"] for event in _events(server, **GREEDY) if event["type"] == "content_block_delta"]
    text = "".join(at(delta, "text", str) for delta in deltas if at(delta, "type") == "text_delta")
    hold(text == whole, f"{text!r} streamed, {whole!r} whole")
    return repr(text)


@claim("tools.any", "any uses a tool, a strict one with an input of its schema", "tool_choice")
def _(server: Server) -> str:
    return _check_calls(server.ask(**_tools({"type": "any"})), {"weather", "traffic"})


@claim("tools.named", "A tool that tool_choice names is used, and no other", "tool_choice")
def _(server: Server) -> str:
    return _check_calls(server.ask(**_tools({"type": "tool", "name": "traffic"})), {"traffic"})


@claim("tools.none", "tool_choice none uses no tool", "tool_choice")
def _(server: Server) -> str:
    message = server.ask(**_tools({"type": "none"}) | {"max_tokens": 32})
    hold(not _calls(message), shown(message))
    return shown(message["content"])


@claim("tools.one", "disable_parallel_tool_use with any uses exactly one tool", "tool_choice")
def _(server: Server) -> str:
    calls = _calls(server.ask(**_tools({"type": "any", "disable_parallel_tool_use": True})))
    hold(len(calls) == 1, shown(calls))
    return shown(calls)


@claim("tools.result", "A conversation may contain a tool use and its result", "messages.content: tool_result")
def _(server: Server) -> str:
    use = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Rome", "days": 3}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Rain."}
    fields = _tools({"type": "auto"})
    messages = [*fields["messages"], {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    return text_of(server.ask(**fields | {"messages": messages, "max_tokens": 8}))


@claim("tools.stream", "The pieces of a streamed input join to JSON of the schema", "stream: input_json_delta")
def _(server: Server) -> str:
    events = _events(server, **_tools({"type": "tool", "name": "weather"}))
    blocks = [event for event in events if event["type"] == "content_block_start"]
    used = [block for block in blocks if at(block, "content_block.type") == "tool_use"]
    hold(used, f"no tool is used: {shown(blocks)}")
    hold(at(used[0], "content_block.input") == {} and at(used[0], "content_block.id", str), shown(used[0]))
    deltas = [event for event in events if event["type"] == "content_block_delta"]
    pieces = [at(each, "delta.partial_json", str) for each in deltas if at(each, "index") == at(used[0], "index")]
    check_fits(parsed("".join(pieces)))
    return shown(pieces)


@claim("format.json_schema", "output_config.format gives JSON of the schema", "output_config.format")
def _(server: Server) -> str:
    config = {"format": {"type": "json_schema", "schema": SCHEMA}}
    message = server.ask(output_config=config, max_tokens=256)
    check_fits(parsed(text_of(message)))
    return repr(text_of(message))


@claim("models.list", "GET /v1/models lists models with type, id, display_name and created_at", "List models")
def _(server: Server) -> str:
    models = items(server.get("/v1/models"), "data")
    for model in models:
        hold(at(model, "type") == "model", shown(model))
        for name in ("id", "display_name", "created_at"):
            at(model, name, str)
    return shown(models[0])
