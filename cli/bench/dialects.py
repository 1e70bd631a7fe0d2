"""Request bodies and stream parsers of the API dialects that `sluice bench` can measure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from cli.bench.record import Record

Event = dict[str, Any]  # a JSON object: a request body, or the data of a server-sent event


class DialectName(StrEnum):
    """The name of an API dialect."""

    OPENAI_CHAT = "openai-chat"
    OPENAI_COMPLETIONS = "openai-completions"
    DATABRICKS = "databricks"
    AZURE = "azure"
    ANTHROPIC = "anthropic"
    MINDIE = "mindie"
    GRPC = "grpc"  # chats over gRPC; the others use HTTP


@dataclass(frozen=True, slots=True)
class BenchRequest:
    """One request, independent of the dialect. `parameters` are additional fields of the body."""

    model: str
    prompt: str
    max_tokens: int
    ignores_end: bool = True  # sends ignore_eos, to generate exactly max_tokens
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dialect:
    """The HTTP streaming API of one platform."""

    path: str  # with {model}, if the path contains it
    body: Callable[[BenchRequest], Event]  # creates the request body
    # Records the token counts and the end of the stream, and returns True for an event with text.
    record_event: Callable[[Event, Record], bool]
    key_header: str = "authorization"
    headers: Mapping[str, str] = field(default_factory=dict)

    def request_headers(self, key: str) -> dict[str, str]:
        """Return the headers of each request, with the API key unless it is empty."""
        found = {"content-type": "application/json", "accept": "text/event-stream", **self.headers}
        if key:
            found[self.key_header] = f"Bearer {key}" if self.key_header == "authorization" else key
        return found


def _common_fields(request: BenchRequest) -> Event:
    """Return the fields that every dialect of OpenAI's family has."""
    ends = {"ignore_eos": True} if request.ignores_end else {}
    return {"model": request.model, "stream": True, "max_tokens": request.max_tokens, **ends}


def _chat(request: BenchRequest) -> Event:
    """Return the body of a chat request."""
    usage = {"stream_options": {"include_usage": True}}
    return {
        **_common_fields(request),
        **usage,
        "messages": [{"role": "user", "content": request.prompt}],
        **request.parameters,
    }


def _invocation(request: BenchRequest) -> Event:
    """Return the body of a request to a Databricks serving endpoint."""
    return {name: value for name, value in _chat(request).items() if name != "model"}  # the path has the model


def _completion(request: BenchRequest) -> Event:
    """Return the body of a completion request."""
    return {
        **_common_fields(request),
        "stream_options": {"include_usage": True},
        "prompt": request.prompt,
        **request.parameters,
    }


def _message(request: BenchRequest) -> Event:
    """Return the body of an Anthropic message request."""
    return {**_common_fields(request), "messages": [{"role": "user", "content": request.prompt}], **request.parameters}


def _mindie(request: BenchRequest) -> Event:
    """Return the body of MindIE, which has no `ignore_eos`."""
    parameters = {"max_new_tokens": request.max_tokens, "details": True, **request.parameters}
    return {"text_input": request.prompt, "parameters": parameters}


def _record_openai(event: Event, record: Record) -> bool:
    """Record the counts of an event; return whether it has text."""
    if usage := event.get("usage"):
        record.prompt_tokens, record.tokens = usage.get("prompt_tokens"), usage.get("completion_tokens")
    has_text = False
    for choice in event.get("choices") or ():
        delta = choice.get("delta") or choice
        has_text |= any(delta.get(name) for name in ("content", "text", "reasoning_content", "reasoning"))
        record.is_finished |= choice.get("finish_reason") is not None
    return has_text


def _record_anthropic(event: Event, record: Record) -> bool:
    """Record the counts of an event; return whether it has text."""
    delta = event.get("delta") or {}
    match event.get("type"):
        case "message_start":
            record.prompt_tokens = event["message"].get("usage", {}).get("input_tokens")
        case "message_delta":
            record.tokens = event.get("usage", {}).get("output_tokens")
        case "message_stop":
            record.is_finished = True
        case "content_block_delta":
            return bool(delta.get("text") or delta.get("thinking"))
    return False


def _record_mindie(event: Event, record: Record) -> bool:
    """Record the counts of an event; return whether it has text."""
    record.tokens = (event.get("details") or {}).get("generated_tokens", record.tokens)
    record.is_finished |= event.get("finish_reason") is not None
    return bool(event.get("text_output"))


DIALECTS: Final = {
    DialectName.OPENAI_CHAT: Dialect("/v1/chat/completions", _chat, _record_openai),
    DialectName.OPENAI_COMPLETIONS: Dialect("/v1/completions", _completion, _record_openai),
    DialectName.DATABRICKS: Dialect("/serving-endpoints/{model}/invocations", _invocation, _record_openai),
    DialectName.AZURE: Dialect(
        "/chat/completions?api-version=2024-05-01-preview", _chat, _record_openai, "api-key",
        {"extra-parameters": "pass-through"},
    ),
    DialectName.ANTHROPIC: Dialect(
        "/v1/messages", _message, _record_anthropic, "x-api-key", {"anthropic-version": "2023-06-01"}
    ),
    DialectName.MINDIE: Dialect("/v2/models/{model}/generate_stream", _mindie, _record_mindie),
}  # fmt: skip
