"""Claims about MindIE's `generate_stream` and Triton's `generate`."""

from __future__ import annotations

from typing import Any

import httpx

from conformance.claim import NUMBER, BrokenError, Claim, InapplicableError, at, claims_into, hold, parsed, shown
from conformance.server import Server

CLAIMS: list[Claim[Server]] = []
claim = claims_into(CLAIMS)


def check_error(answer: httpx.Response) -> None:
    """Raise BrokenError if an error has no text."""
    at(parsed(answer.text), "error", str)


def no_model(_: httpx.Client) -> str:
    """Raise BrokenError, since the reference has no list of models."""
    raise BrokenError("name the model: this dialect has no list of them")


def _streamed(server: Server, **parameters: Any) -> list[Any]:
    """Return the data of a stream's events."""
    events = server.events(parameters=parameters)
    hold(events, "the stream has no event")
    hold(events[-1].data != "[DONE]", "the last event is [DONE], which the reference doesn't have")
    return [parsed(event.data) for event in events]


def _text(events: list[Any]) -> str:
    return "".join(at(event, "text_output", str) for event in events)


@claim("stream.shape", "Each event has id, model_name and text_output", "response example")
def _(server: Server) -> str:
    events = _streamed(server, max_new_tokens=4)
    for event in events:
        at(event, "id", str)
        at(event, "text_output", str)
        hold(at(event, "model_name", str) == server.model, shown(event))
        at(event, "model_version", (str, type(None)))
    return shown(events[0])


@claim("stream.id", "Each event has the request's id", "id")
def _(server: Server) -> str:
    events = [parsed(event.data) for event in server.events(id="a123", parameters={"max_new_tokens": 3})]
    hold(events, "the stream has no event")
    hold(all(at(event, "id") == "a123" for event in events), shown(events))
    return shown(events[0])


@claim("stream.finish", "The last event alone has a finish_reason", "finish_reason")
def _(server: Server) -> str:
    events = _streamed(server, max_new_tokens=4, details=True)
    reasons = [event.get("finish_reason") or at(event, "details", dict).get("finish_reason") for event in events]
    hold(isinstance(reasons[-1], str) and reasons[-1] and not any(reasons[:-1]), f"finish_reasons {reasons}")
    return f"finish_reasons {reasons}"


@claim("stream.details", "details has a growing generated_tokens, batch_size and queue_wait_time", "details")
def _(server: Server) -> str:
    events = _streamed(server, max_new_tokens=4, details=True)
    counts = [at(event, "details.generated_tokens", int) for event in events]
    hold(counts == sorted(counts) and counts[-1] <= 4, f"generated_tokens {counts}")
    for name in ("batch_size", "queue_wait_time"):
        at(events[0], f"details.{name}", NUMBER)
    return shown(events[-1])


@claim("stream.plain", "Without `details`, no event has details", "details")
def _(server: Server) -> str:
    events = _streamed(server, max_new_tokens=3)
    hold(not any(event.get("details") for event in events), shown(events))
    return shown(events[0])


@claim("stream.max_new_tokens", "max_new_tokens bounds the answer, and finish_reason is length", "max_new_tokens")
def _(server: Server) -> str:
    return _bounded(_streamed(server, max_new_tokens=3, details=True), 3)


@claim("stream.default", "Without max_new_tokens, an answer has at most 20 tokens", "max_new_tokens")
def _(server: Server) -> str:
    return _bounded(_streamed(server, details=True), 20)


def _bounded(events: list[Any], limit: int) -> str:
    count = at(events[-1], "details.generated_tokens", int)
    reason = events[-1].get("finish_reason") or at(events[-1], "details.finish_reason", str)
    hold(count <= limit, f"{count} tokens where {limit} were allowed")
    if reason != "eos_token":
        hold((count, reason) == (limit, "length"), f"{count} tokens, {reason!r}")
    return f"{count} tokens, {reason}"


@claim("stream.greedy", "Without do_sample, decoding is greedy: two answers are the same", "do_sample")
def _(server: Server) -> str:
    first, second = (_text(_streamed(server)) for _ in range(2))
    hold(first == second, shown([first, second]))
    return repr(first)


@claim("stream.seed", "The same seed gives the same answer", "seed")
def _(server: Server) -> str:
    first, second = (_text(_streamed(server, do_sample=True, seed=123)) for _ in range(2))
    hold(first == second, shown([first, second]))
    return repr(first)


@claim("stream.parameters", "All parameters of the reference's example are accepted", "request example")
def _(server: Server) -> str:
    sampled = {"do_sample": True, "repetition_penalty": 1.1, "seed": 123, "temperature": 1, "top_k": 10, "top_p": 0.99}
    rest = {"batch_size": 100, "typical_p": 0.5, "watermark": False, "perf_stat": False}
    return shown(_streamed(server, details=True, max_new_tokens=5, **sampled, **rest)[-1])


@claim("whole.same", "Triton's `generate` answers with the text of the stream")
def _(server: Server) -> str:
    path = server.path().removesuffix("_stream")
    answer = server.client.post(path, json=server.body({"parameters": {"max_new_tokens": 8}}))
    if answer.status_code in {404, 405, 501}:
        raise InapplicableError(f"POST {path}: status {answer.status_code}")
    whole, text = at(parsed(answer.text), "text_output", str), _text(_streamed(server, max_new_tokens=8))
    hold(text == whole, f"{text!r} streamed, {whole!r} whole")
    return repr(whole)
