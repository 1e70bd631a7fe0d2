"""Claims about whole and streamed chat answers in the dialects of OpenAI, Databricks and Azure."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from conformance.claim import NUMBER, Claim, InapplicableError, at, claims_into, hold, items, only, parsed, shown
from conformance.server import Event, Server, events_of

OBJECTS = {"openai": "chat.completion", "databricks": "chat.completions", "azure": "chat.completion"}
GREEDY: dict[str, Any] = {"temperature": 0, "max_tokens": 32}
LOGPROBS = ("openai", "databricks")
DONE = Event("", "[DONE]")
CLAIMS: list[Claim[Server]] = []
claim = claims_into(CLAIMS)


def text_of(answer: Any) -> str:
    """Return the text of an answer's first choice; empty if it is null."""
    return at(answer, "choices.0.message.content", (str, type(None))) or ""


def greedy_text(server: Server, **fields: Any) -> str:
    """Return a greedy answer. Raise InapplicableError if a second one differs, since a third would prove nothing."""
    first, second = (text_of(server.ask(**GREEDY, **fields)) for _ in range(2))
    if first != second:
        raise InapplicableError(f"greedy answers to one request differ: {shown([first, second])}")
    return first


@claim("answer.shape", "A whole answer has id, object, created, model, choices with a message, and usage", "response")
def _(server: Server) -> str:
    answer = server.ask(max_tokens=4)
    hold(at(answer, "id", str), "id is empty")
    at(answer, "created", int)
    hold(at(answer, "model", str), "model is empty")
    name = at(answer, "object", str)
    hold(name == OBJECTS[server.dialect.name], f"object is {name!r}")
    choice = only(items(answer, "choices"), "a choice")
    hold(at(choice, "index", int) == 0, f"index is {choice['index']}")
    hold(at(choice, "message.role") == "assistant", f"role is {shown(choice['message']['role'])}")
    at(choice, "message.content", (str, type(None)))
    reason = at(choice, "finish_reason", str)
    hold(reason in {"stop", "length"}, f"finish_reason is {reason!r}")
    return shown(answer)


@claim("answer.usage", "usage counts prompt and answer, and total_tokens is their sum", "usage")
def _(server: Server) -> str:
    usage = at(server.ask(max_tokens=4), "usage", dict)
    prompt, answer, total = (at(usage, f"{name}_tokens", int) for name in ("prompt", "completion", "total"))
    hold(prompt > 0 and answer >= 0 and total == prompt + answer, shown(usage))
    return shown(usage)


@claim("answer.max_tokens", "max_tokens bounds the answer, and finish_reason is length", "max_tokens")
def _(server: Server) -> str:
    answer = server.ask(max_tokens=2)
    count, reason = at(answer, "usage.completion_tokens", int), at(answer, "choices.0.finish_reason")
    hold(count <= 2, f"{count} tokens, but the limit is 2")
    if reason == "stop":
        raise InapplicableError("the model ended its answer earlier")
    hold(reason == "length", f"finish_reason is {shown(reason)}")
    return f"{count} tokens, {reason}"


@claim("answer.stop", "A stop sequence ends the answer before it, with finish_reason stop", "stop")
def _(server: Server) -> str:
    text = greedy_text(server)
    stop = text[3:6]
    if len(stop) < 3 or not stop.strip():
        raise InapplicableError(f"the model's answer is too short: {text!r}")
    answer = server.ask(**GREEDY, stop=[stop])
    before, reason = text_of(answer), at(answer, "choices.0.finish_reason")
    hold(before == text.partition(stop)[0], f"{before!r} with the stop {stop!r}, {text!r} without")
    hold(reason == "stop", f"finish_reason is {shown(reason)}")
    return f"{before!r} before {stop!r}"


@claim(
    "answer.seed",
    "One seed and system_fingerprint give one answer",
    "seed",
    ("openai", "azure"),
)
def _(server: Server) -> str:
    answers = [server.ask(temperature=1, seed=7, max_tokens=16) for _ in range(2)]
    first, second = map(text_of, answers)
    prints = [each.get("system_fingerprint") for each in answers]
    if prints[0] != prints[1]:
        raise InapplicableError(f"system_fingerprint changed: {shown(prints)}")
    hold(first == second, shown([first, second]))
    return repr(first)


@claim("answer.n", "n=2 gives two choices, with index 0 and 1", "n", ("openai", "databricks"))
def _(server: Server) -> str:
    choices = items(server.ask(n=2, max_tokens=4), "choices")
    indexes = sorted(at(choice, "index", int) for choice in choices)
    hold(indexes == [0, 1], f"indexes {indexes}")
    return shown(choices)


@claim("answer.parts", "A list of one text part is the same prompt as the text", "messages.content", ("openai",))
def _(server: Server) -> str:
    counts = []
    for content in ("Hello there!", [{"type": "text", "text": "Hello there!"}]):
        answer = server.ask(messages=[{"role": "user", "content": content}], max_tokens=2)
        counts.append(at(answer, "usage.prompt_tokens", int))
    hold(counts[0] == counts[1], f"prompt_tokens {counts}")
    return f"{counts[0]} tokens"


@claim("answer.system", "A system message is part of the prompt", "messages.role")
def _(server: Server) -> str:
    user = {"role": "user", "content": "Hello!"}
    system = {"role": "system", "content": "Answer briefly, and in French only."}
    counts = [
        at(server.ask(messages=messages, max_tokens=2), "usage.prompt_tokens", int)
        for messages in ([user], [system, user])
    ]
    hold(counts[0] < counts[1], f"prompt_tokens {counts}")
    return f"prompt_tokens {counts}"


@claim("answer.logprobs", "logprobs has each token's bytes, which join to the text", "logprobs", LOGPROBS)
def _(server: Server) -> str:
    answer = server.ask(logprobs=True, max_tokens=8)
    tokens = items(answer, "choices.0.logprobs.content")
    hold(all(at(token, "logprob", NUMBER) <= 0 for token in tokens), f"a logprob above 0: {shown(tokens)}")
    data = b"".join(bytes(at(token, "bytes", list)) for token in tokens)
    hold(data.decode(errors="replace").startswith(text_of(answer)), f"{data!r} for {text_of(answer)!r}")
    return shown(tokens[0])


@claim("answer.top_logprobs", "top_logprobs=3 gives three candidates per token, best first", "top_logprobs", LOGPROBS)
def _(server: Server) -> str:
    answer = server.ask(logprobs=True, top_logprobs=3, max_tokens=4)
    for token in items(answer, "choices.0.logprobs.content"):
        top = [at(each, "logprob", NUMBER) for each in at(token, "top_logprobs", list)]
        hold(len(top) == 3 and all(a >= b for a, b in pairwise(top)), shown(token))
    return shown(token)


def chunks_of(events: list[Event]) -> list[Any]:
    """Return the chunks of a stream, without the final [DONE]."""
    return [parsed(event.data) for event in (events[:-1] if events[-1:] == [DONE] else events)]


def parts_of(chunks: list[Any]) -> list[Any]:
    """Return the choices of all chunks."""
    return [choice for chunk in chunks for choice in at(chunk, "choices", list)]


@claim("stream.form", "A stream has one event per chunk, with data only, and ends with [DONE]", "stream")
def _(server: Server) -> str:
    events = server.events(max_tokens=8)
    hold(all(not event.name for event in events), f"an event has a name: {events}")
    hold(events[-1:] == [DONE], f"the last event is {events[-1:]}")
    chunks = chunks_of(events)
    return f"{len(chunks)} chunks; the first is {shown(chunks[:1])}"


@claim("stream.chunks", "Chunks are chat.completion.chunk, all with the same id, created and model", "stream: chunk")
def _(server: Server) -> str:
    chunks = chunks_of(server.events(max_tokens=8))
    for chunk in chunks:
        hold(at(chunk, "object") == "chat.completion.chunk", f"object is {shown(chunk['object'])}")
    kept = {(at(chunk, "id", str), at(chunk, "created", int), at(chunk, "model", str)) for chunk in chunks}
    hold(len(kept) == 1, f"{len(kept)} different values: {shown(sorted(kept)[:2])}")
    return shown(min(kept))


@claim("stream.role", "The first chunk's delta has the role", "stream: delta.role")
def _(server: Server) -> str:
    parts = parts_of(chunks_of(server.events(max_tokens=8)))
    hold(parts, "no chunk has a choice")
    hold(at(parts[0], "delta", dict).get("role") == "assistant", shown(parts[0]))
    return shown(parts[0])


@claim("stream.finish", "Exactly one chunk has a finish_reason, and no text comes after it", "stream: finish_reason")
def _(server: Server) -> str:
    parts = parts_of(chunks_of(server.events(max_tokens=8)))
    reasons = [part.get("finish_reason") for part in parts]
    reason = only(filter(None, reasons), "a finish_reason")
    hold(reason in {"stop", "length"} and reasons[-1] == reason, f"finish_reasons {reasons}")
    return str(reason)


@claim("stream.same", "A stream's pieces join to the text of the whole answer", "stream")
def _(server: Server) -> str:
    whole = greedy_text(server)
    parts = parts_of(chunks_of(server.events(**GREEDY)))
    text = "".join(at(part, "delta", dict).get("content") or "" for part in parts)
    hold(text == whole, f"{text!r} streamed, {whole!r} whole")
    return repr(text)


@claim(
    "stream.usage",
    "include_usage adds a last chunk without choices; no other chunk has a usage",
    "stream_options.include_usage",
    ("openai",),
)
def _(server: Server) -> str:
    chunks = chunks_of(server.events(max_tokens=8, stream_options={"include_usage": True}))
    hold(chunks, "no chunks")
    hold(at(chunks[-1], "choices") == [], f"the last chunk is {shown(chunks[-1])}")
    usage = at(chunks[-1], "usage", dict)
    total = at(usage, "prompt_tokens", int) + at(usage, "completion_tokens", int)
    hold(at(usage, "total_tokens", int) == total, shown(usage))
    hold(not any(chunk.get("usage") for chunk in chunks[:-1]), "other chunks have a usage")
    return shown(usage)


@claim("stream.default", "Without `stream`, the answer is streamed", "stream", ("databricks",))
def _(server: Server) -> str:
    answer = server.client.post(server.path(), json=server.body({"stream": None, "max_tokens": 2}))
    kind = answer.headers.get("content-type", "")
    hold(answer.status_code == 200 and kind.startswith("text/event-stream"), f"{answer.status_code}, {kind!r}")
    hold(events_of(answer.text), "the stream has no event")
    return f"200, {kind}"
