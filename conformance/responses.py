"""Claims about OpenAI's Responses API: whole and streamed responses, tools and formats."""

from __future__ import annotations

from typing import Any

from conformance.claim import Claim, InapplicableError, at, claims_into, hold, items, only, parsed, shown
from conformance.constraints import JSON_QUESTION, QUESTION, SCHEMA, check_fits
from conformance.server import Server

ENDS = {"completed", "incomplete"}
LONG: dict[str, Any] = {"max_output_tokens": 256, "temperature": 0}
OBJECT, STREAM = "The response object", "Streaming events"
CLAIMS: list[Claim[Server]] = []
claim = claims_into(CLAIMS)


def text_of(response: Any) -> str:
    """Return the text of all messages of a response."""
    messages = [item for item in at(response, "output", list) if item.get("type") == "message"]
    return "".join(at(part, "text", str) for item in messages for part in at(item, "content", list))


def input_tokens_of(response: Any) -> int:
    """Return the number of tokens of a response's input."""
    return int(at(response, "usage.input_tokens", int))


@claim("response.shape", "A response has id, object, created_at, status, model, output and error", OBJECT)
def _(server: Server) -> str:
    response = server.ask()
    hold(at(response, "id", str) and at(response, "object") == "response", shown(response))
    at(response, "created_at", (int, float))
    at(response, "model", str)
    hold(at(response, "status") in ENDS and at(response, "error") is None, shown(response))
    return shown(response)


@claim("response.message", "Its message has id, type, status, role, and parts with text and annotations", OBJECT)
def _(server: Server) -> str:
    output = items(server.ask(), "output")
    message = only((item for item in output if item.get("type") == "message"), "a message")
    hold(at(message, "id", str) and at(message, "role") == "assistant", shown(message))
    hold(at(message, "status") in ENDS, shown(message))
    for part in items(message, "content"):
        hold(at(part, "type") == "output_text" and isinstance(at(part, "text"), str), shown(part))
        at(part, "annotations", list)
    return shown(message)


@claim("response.usage", "usage counts input and output with their details, and total_tokens is their sum", OBJECT)
def _(server: Server) -> str:
    usage = at(server.ask(), "usage", dict)
    read, written, total = (at(usage, f"{name}_tokens", int) for name in ("input", "output", "total"))
    hold(read > 0 and written > 0 and total == read + written, shown(usage))
    hold(0 <= at(usage, "input_tokens_details.cached_tokens", int) <= read, shown(usage))
    hold(0 <= at(usage, "output_tokens_details.reasoning_tokens", int) <= written, shown(usage))
    return shown(usage)


@claim("response.echo", "A response repeats the parameters of its request", OBJECT)
def _(server: Server) -> str:
    asked = {"temperature": 0.5, "top_p": 0.75, "instructions": "Be brief.", "metadata": {"topic": "numbers"}}
    response = server.ask(**asked)
    found = {name: at(response, name) for name in asked}
    hold(found == asked, f"{shown(found)} for {shown(asked)}")
    at(response, "tools", list)
    at(response, "parallel_tool_calls", bool)
    return shown(found)


@claim("response.limit", "max_output_tokens bounds a response, which is incomplete then, with the reason", OBJECT)
def _(server: Server) -> str:
    response = server.ask(input="Tell me a long story.", max_output_tokens=16)
    count, status = at(response, "usage.output_tokens", int), at(response, "status")
    hold(count <= 16, f"{count} tokens, but the limit is 16")
    if status == "completed":
        raise InapplicableError("the model ended its answer earlier")
    reason = at(response, "incomplete_details.reason")
    hold((status, reason) == ("incomplete", "max_output_tokens"), f"{shown(status)} because of {shown(reason)}")
    return f"{count} tokens, {reason}"


@claim("response.items", "A message of the user, as text or as parts, is the same input as its text", "input")
def _(server: Server) -> str:
    text = "Hello there!"
    contents = (text, [{"type": "input_text", "text": text}])
    inputs = [text, *([{"role": "user", "content": content}] for content in contents)]
    counts = [input_tokens_of(server.ask(input=each, max_output_tokens=16)) for each in inputs]
    hold(len(set(counts)) == 1, f"input_tokens {counts}")
    return f"{counts[0]} tokens"


@claim("response.instructions", "instructions are part of the input", "instructions")
def _(server: Server) -> str:
    counts = [input_tokens_of(server.ask(instructions=each)) for each in (None, "Answer briefly, and in French only.")]
    hold(counts[0] < counts[1], f"input_tokens {counts}")
    return f"input_tokens {counts}"


@claim("response.count", "POST /v1/responses/input_tokens counts the input of the same request", "Input tokens")
def _(server: Server) -> str:
    answer = server.client.post(f"{server.path()}/input_tokens", json=server.body({"max_output_tokens": None}))
    if answer.status_code in {404, 405, 501}:
        raise InapplicableError(f"status {answer.status_code}")
    counted, used = at(parsed(answer.text), "input_tokens", int), input_tokens_of(server.ask())
    hold(counted == used, f"{counted} counted, {used} used")
    return f"{counted} tokens"


def events_of(server: Server, **fields: Any) -> list[Any]:
    """Return the events of a stream. Raise BrokenError if a name and its type differ, or a number is out of order."""
    events = []
    for index, event in enumerate(server.events(**fields)):
        data = parsed(event.data)
        hold(event.name == at(data, "type"), f"the event {event.name!r} has the type {shown(data['type'])}")
        hold(at(data, "sequence_number", int) == index, f"event {index} has the number {data['sequence_number']}")
        events.append(data)
    hold(events, "the stream has no event")
    return events


def of_type(events: list[Any], kind: str) -> list[Any]:
    """Return the events of a type."""
    return [event for event in events if event["type"] == f"response.{kind}"]


@claim("stream.order", "created, in_progress, each item and part from added to done, the end; numbered from 0", STREAM)
def _(server: Server) -> str:
    types = [event["type"].removeprefix("response.") for event in events_of(server)]
    hold(types[:2] == ["created", "in_progress"] and types[-1] in ENDS, shown(types))
    inner = [kind for kind in types[2:-1] if kind != "output_text.delta" and not kind.startswith("reasoning")]
    begin, end = ["output_item.added", "content_part.added"], ["output_text.done", "content_part.done"]
    hold(inner[-5:] == [*begin, *end, "output_item.done"], shown(types))
    deltas = [index for index, kind in enumerate(types) if kind == "output_text.delta"]
    inside = range(types.index("content_part.added"), types.index("output_text.done"))
    hold(deltas and all(index in inside for index in deltas), shown(types))
    return shown(types)


@claim("stream.start", "created and in_progress have the response, in progress and without output", STREAM)
def _(server: Server) -> str:
    events = events_of(server)[:2]
    for event in events:
        response = at(event, "response", dict)
        hold((at(response, "status"), at(response, "output")) == ("in_progress", []), shown(response))
    hold(at(events[0], "response.id") == at(events[1], "response.id"), shown(events))
    return shown(events[0])


@claim("stream.deltas", "Deltas name their item and join to the text of done, the part, the item and the end", STREAM)
def _(server: Server) -> str:
    events = events_of(server)
    added, deltas = only(of_type(events, "output_item.added"), "an added item"), of_type(events, "output_text.delta")
    text = "".join(at(delta, "delta", str) for delta in deltas)
    done = only(of_type(events, "output_text.done"), "an end of the text")
    for event in (*deltas, done):
        place = (at(event, "item_id"), at(event, "output_index"), at(event, "content_index"))
        hold(place == (at(added, "item.id"), at(added, "output_index"), 0), shown(event))
    part = at(only(of_type(events, "content_part.done"), "an end of the part"), "part.text")
    item = at(only(of_type(events, "output_item.done"), "an end of the item"), "item.content.0.text")
    texts = [text, at(done, "text"), part, item, text_of(at(events[-1], "response", dict))]
    hold(len(set(texts)) == 1, shown(texts))
    return repr(text)


@claim("stream.same", "A streamed response is the same text as a whole one", STREAM)
def _(server: Server) -> str:
    first, second = (text_of(server.ask()) for _ in range(2))
    if first != second:
        raise InapplicableError(f"greedy answers to one request differ: {shown([first, second])}")
    text = text_of(at(events_of(server)[-1], "response", dict))
    hold(text == first, f"{text!r} streamed, {first!r} whole")
    return repr(first)


def _tools(choice: Any) -> dict[str, Any]:
    """Return the fields of a request with two tools and this tool_choice."""
    tools = [
        {"type": "function", "name": name, "description": f"Tells the {name}.", "parameters": SCHEMA, "strict": True}
        for name in ("weather", "traffic")
    ]
    return {"input": QUESTION, "tools": tools, "tool_choice": choice, **LONG}


def _calls(response: Any) -> list[Any]:
    if at(response, "status") == "incomplete":
        raise InapplicableError(f"the response was cut off: {shown(response['output'])}")
    calls = [item for item in at(response, "output", list) if item.get("type") == "function_call"]
    hold(calls, f"no function is called: {shown(response['output'])}")
    for call in calls:
        hold(at(call, "id", str) and at(call, "call_id", str) and at(call, "status") == "completed", shown(call))
        check_fits(parsed(at(call, "arguments", str)))
    return calls


@claim("tools.required", "required calls a function with arguments of its schema, as an item with a call_id", "tools")
def _(server: Server) -> str:
    calls = _calls(server.ask(**_tools("required")))
    hold(all(at(call, "name") in {"weather", "traffic"} for call in calls), shown(calls))
    return shown(calls)


@claim("tools.named", "A function that tool_choice names is called, and no other", "tool_choice")
def _(server: Server) -> str:
    calls = _calls(server.ask(**_tools({"type": "function", "name": "traffic"})))
    hold(all(at(call, "name") == "traffic" for call in calls), shown(calls))
    return shown(calls)


@claim("tools.stream", "Deltas of arguments join to those of done and of the item", STREAM)
def _(server: Server) -> str:
    events = events_of(server, **_tools({"type": "function", "name": "weather"}), parallel_tool_calls=False)
    (call,) = _calls(at(events[-1], "response", dict))[:1]
    pieces = [at(event, "delta", str) for event in of_type(events, "function_call_arguments.delta")]
    done = only(of_type(events, "function_call_arguments.done"), "an end of the arguments")
    hold("".join(pieces) == at(done, "arguments") == call["arguments"], shown([pieces, done, call]))
    return shown(pieces)


@claim("tools.result", "The input may contain a call and its output", "input")
def _(server: Server) -> str:
    call = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Rome", "days": 3}'}
    result = {"type": "function_call_output", "call_id": "c1", "output": "Rain."}
    fields = _tools("auto")
    response = server.ask(**fields | {"input": [{"role": "user", "content": QUESTION}, call, result]})
    return text_of(response)


@claim("format.json_schema", "text.format with a schema gives JSON of the schema", "text")
def _(server: Server) -> str:
    wanted = {"type": "json_schema", "name": "trip", "schema": SCHEMA, "strict": True}
    response = server.ask(input=JSON_QUESTION, text={"format": wanted}, **LONG)
    if at(response, "status") == "incomplete":
        raise InapplicableError(f"the response was cut off: {text_of(response)!r}")
    check_fits(parsed(text_of(response)))
    return repr(text_of(response))
