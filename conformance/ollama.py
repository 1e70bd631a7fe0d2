"""Claims about Ollama's API."""

from __future__ import annotations

from typing import Any

import httpx

from conformance.claim import Claim, InapplicableError, at, claims_into, hold, items, parsed, shown
from conformance.constraints import QUESTION, SCHEMA, check_fits
from conformance.server import Server

CHAT = "Generate a chat message"
GENERATE = "Generate a completion"
COUNTS = (
    "total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration", "eval_count", "eval_duration",
)  # fmt: skip
CLAIMS: list[Claim[Server]] = []
claim = claims_into(CLAIMS)


def check_error(answer: httpx.Response) -> None:
    """Raise BrokenError if an error has no text."""
    at(parsed(answer.text), "error", str)


def _options(**options: Any) -> dict[str, Any]:
    return {"options": {"temperature": 0, "num_predict": 32, **options}}


def _text(answer: Any) -> str:
    text: str = at(answer, "message.content", str)
    return text


def _streamed(server: Server, **fields: Any) -> list[Any]:
    """Return the lines of a stream."""
    lines = [parsed(event.data) for event in server.events(**fields)]
    hold(lines, "the stream has no line")
    return lines


def _check_end(answer: Any) -> None:
    hold(at(answer, "done", bool), f"done is {shown(answer['done'])}")
    hold(at(answer, "done_reason", str) in {"stop", "length"}, f"done_reason is {shown(answer['done_reason'])}")
    for name in COUNTS:
        hold(at(answer, name, int) >= 0, f"{name} is {shown(answer[name])}")
    parts = sum(answer[name] for name in ("load_duration", "prompt_eval_duration", "eval_duration"))
    hold(parts <= answer["total_duration"], f"the parts of total_duration {answer['total_duration']} are {parts}")


@claim("chat.shape", "An answer has model, created_at and a message of the assistant", CHAT)
def _(server: Server) -> str:
    answer = server.ask()
    hold(at(answer, "model") == server.model, shown(answer))
    at(answer, "created_at", str)
    hold(at(answer, "message.role") == "assistant" and _text(answer), shown(answer))
    return shown(answer)


@claim("chat.end", "An answer has done, done_reason, counts, and durations of which the total is the largest", CHAT)
def _(server: Server) -> str:
    answer = server.ask()
    _check_end(answer)
    return shown({name: answer[name] for name in ("done_reason", *COUNTS)})


@claim("chat.num_predict", "num_predict bounds the answer, and done_reason is length", CHAT)
def _(server: Server) -> str:
    answer = server.ask(**_options(num_predict=2))
    hold(at(answer, "eval_count", int) <= 2, f"{answer['eval_count']} tokens, but the limit is 2")
    hold(at(answer, "done_reason") == "length", f"done_reason is {shown(answer['done_reason'])}")
    return shown(answer)


@claim("chat.stop", "A stop sequence ends the answer, and is not part of it", CHAT)
def _(server: Server) -> str:
    free = _text(server.ask())
    if len(free) < 6:
        raise InapplicableError(f"the answer is too short: {free!r}")
    stop = free[3:6]
    answer = server.ask(**_options(stop=[stop]))
    hold(_text(answer) == free.partition(stop)[0], f"{_text(answer)!r} with the stop {stop!r}, {free!r} without")
    hold(at(answer, "done_reason") == "stop", f"done_reason is {shown(answer['done_reason'])}")
    return shown(answer)


@claim("chat.system", "A message of the role system becomes part of the prompt", CHAT)
def _(server: Server) -> str:
    messages = server.dialect.good["messages"]
    asked = ({"messages": messages}, {"messages": [{"role": "system", "content": "Be brief."}, *messages]})
    counts = [at(server.ask(**fields), "prompt_eval_count", int) for fields in asked]
    hold(counts[0] < counts[1], f"prompt_eval_count {counts}")
    return f"prompt_eval_count {counts}"


@claim("chat.seed", "The same seed gives the same answer", "Request (reproducible outputs)")
def _(server: Server) -> str:
    first, second = (_text(server.ask(**_options(seed=101, temperature=1))) for _ in range(2))
    hold(first == second, shown([first, second]))
    return repr(first)


@claim("format.json", "With `format` json, the answer is a JSON object", "Request (JSON mode)")
def _(server: Server) -> str:
    answer = server.ask(format="json", **_options(num_predict=256))
    if at(answer, "done_reason") == "length":
        raise InapplicableError(f"the answer was cut off: {shown(answer)}")
    hold(isinstance(parsed(_text(answer)), dict), f"the answer is {_text(answer)!r}")
    return _text(answer)


@claim("format.schema", "With a schema as `format`, the answer matches it", "Request (Structured outputs)")
def _(server: Server) -> str:
    messages = [{"role": "user", "content": QUESTION}]
    answer = server.ask(messages=messages, format=SCHEMA, **_options(num_predict=256))
    if at(answer, "done_reason") == "length":
        raise InapplicableError(f"the answer was cut off: {shown(answer)}")
    check_fits(parsed(_text(answer)))
    return _text(answer)


@claim(
    "tools.call", "A call has the name of a tool, and an object as arguments", "Chat request (No streaming, with tools)"
)
def _(server: Server) -> str:
    function = {"name": "weather", "description": "Returns the weather of a city.", "parameters": SCHEMA}
    messages = [{"role": "user", "content": QUESTION}]
    answer = server.ask(messages=messages, tools=[{"type": "function", "function": function}])
    calls = at(answer, "message", dict).get("tool_calls") or []
    if not calls:
        raise InapplicableError(f"the model calls no tool: {shown(answer)}")
    for call in calls:
        hold(at(call, "function.name") == "weather", shown(call))
        at(call, "function.arguments", dict)
    return shown(calls)


@claim("stream.shape", "Each line has model, created_at and a message of the assistant", CHAT)
def _(server: Server) -> str:
    lines = _streamed(server)
    for line in lines:
        hold(at(line, "model") == server.model and at(line, "message.role") == "assistant", shown(line))
        at(line, "created_at", str)
        _text(line)
    return shown(lines[0])


@claim("stream.end", "The last line alone has done, done_reason, counts and durations", CHAT)
def _(server: Server) -> str:
    lines = _streamed(server)
    ends = [at(line, "done", bool) for line in lines]
    hold(ends == [False] * (len(ends) - 1) + [True], f"done {ends}")
    _check_end(lines[-1])
    hold(not any(name in line for line in lines[:-1] for name in COUNTS), shown(lines[0]))
    return shown(lines[-1])


@claim("stream.same", "A streamed answer is the same text as a whole one", CHAT)
def _(server: Server) -> str:
    text, whole = "".join(map(_text, _streamed(server))), _text(server.ask())
    hold(text == whole, f"{text!r} streamed, {whole!r} whole")
    return repr(whole)


@claim("stream.unsaid", "Without `stream`, the answer is streamed", CHAT)
def _(server: Server) -> str:
    answer = server.client.post(server.path(), json=server.body({"stream": None}))
    kind: str = answer.headers.get("content-type", "")
    hold(kind.startswith(server.dialect.stream_type), f"the content-type is {kind!r}")
    return kind


@claim("load.chat", "A chat without messages loads the model: done_reason is load", "Load a model")
def _(server: Server) -> str:
    answer = server.ask(messages=[])
    hold((at(answer, "done"), at(answer, "done_reason"), _text(answer)) == (True, "load", ""), shown(answer))
    return shown(answer)


@claim("generate.shape", "A generation has model, created_at, response, done, counts and durations", GENERATE)
def _(server: Server) -> str:
    answer = server.post("/api/generate", {"model": server.model, "prompt": "One, two,", "stream": False, **_options()})
    hold(at(answer, "model") == server.model and at(answer, "response", str), shown(answer))
    at(answer, "created_at", str)
    _check_end(answer)
    return shown(answer)


@claim("generate.load", "A generation without a prompt loads the model: done_reason is load", "Load a model")
def _(server: Server) -> str:
    answer = server.post("/api/generate", {"model": server.model})
    hold((at(answer, "done"), at(answer, "done_reason"), at(answer, "response")) == (True, "load", ""), shown(answer))
    return shown(answer)


@claim(
    "models.tags", "GET /api/tags lists models with name, modified_at, size, digest and details", "List Local Models"
)
def _(server: Server) -> str:
    models = items(server.get("/api/tags"), "models")
    for model in models:
        for name in ("name", "modified_at", "digest", "details.family", "details.parameter_size"):
            at(model, name, str)
        at(model, "size", int)
    return shown(models[0])


@claim(
    "models.ps",
    "GET /api/ps lists the models in memory with name, size, expires_at and size_vram",
    "List Running Models",
)
def _(server: Server) -> str:
    models = items(server.get("/api/ps"), "models")
    for model in models:
        for name, kind in (("name", str), ("size", int), ("expires_at", str), ("size_vram", int)):
            at(model, name, kind)
    return shown(models[0])


@claim(
    "models.show",
    "POST /api/show has details, model_info with the context length, capabilities",
    "Show Model Information",
)
def _(server: Server) -> str:
    shows = server.post("/api/show", {"model": server.model})
    info = at(shows, "model_info", dict)
    architecture = info.get("general.architecture")
    hold(isinstance(info.get(f"{architecture}.context_length"), int), shown(info))
    hold("completion" in at(shows, "capabilities", list), shown(shows["capabilities"]))
    at(shows, "details.family", str)
    return shown(shows)


@claim("version", "GET /api/version returns the version", "Version")
def _(server: Server) -> str:
    return str(at(server.get("/api/version"), "version", str))
