"""The requests and stream events of each dialect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from cli.bench.record import Record

Event = dict[str, Any]


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
    """One request. `parameters` are additional fields of the body."""

    model: str
    prompt: str
    max_tokens: int
    ignores_end: bool = True  # generate until max_tokens
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dialect:
    """The HTTP streaming API of one platform."""

    path: str  # with {model}, if the path contains it
    body: Callable[[BenchRequest], Event]
    note: Callable[[Event, Record], bool]  # records an event's numbers and returns True if it has text
    key_header: str = "authorization"
    headers: Mapping[str, str] = field(default_factory=dict)

    def head(self, key: str) -> dict[str, str]:
        """Return the headers of each request, including the key, if any."""
        found = {"content-type": "application/json", "accept": "text/event-stream", **self.headers}
        if key:
            found[self.key_header] = f"Bearer {key}" if self.key_header == "authorization" else key
        return found


def _common(request: BenchRequest) -> Event:
    ends = {"ignore_eos": True} if request.ignores_end else {}
    return {"model": request.model, "stream": True, "max_tokens": request.max_tokens, **ends}


def _chat(request: BenchRequest) -> Event:
    usage = {"stream_options": {"include_usage": True}}
    return {
        **_common(request),
        **usage,
        "messages": [{"role": "user", "content": request.prompt}],
        **request.parameters,
    }


def _invocation(request: BenchRequest) -> Event:
    return {name: value for name, value in _chat(request).items() if name != "model"}  # the path has the model


def _completion(request: BenchRequest) -> Event:
    return {
        **_common(request),
        "stream_options": {"include_usage": True},
        "prompt": request.prompt,
        **request.parameters,
    }


def _message(request: BenchRequest) -> Event:
    return {**_common(request), "messages": [{"role": "user", "content": request.prompt}], **request.parameters}


def _text(request: BenchRequest) -> Event:
    """Return the body without `ignore_eos`, which this dialect does not have."""
    parameters = {"max_new_tokens": request.max_tokens, "details": True, **request.parameters}
    return {"text_input": request.prompt, "parameters": parameters}


def _note_openai(event: Event, record: Record) -> bool:
    if usage := event.get("usage"):
        record.prompt_tokens, record.tokens = usage.get("prompt_tokens"), usage.get("completion_tokens")
    has_text = False
    for choice in event.get("choices") or ():
        delta = choice.get("delta") or choice
        has_text |= any(delta.get(name) for name in ("content", "text", "reasoning_content", "reasoning"))
        record.is_finished |= choice.get("finish_reason") is not None
    return has_text


def _note_anthropic(event: Event, record: Record) -> bool:
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


def _note_mindie(event: Event, record: Record) -> bool:
    record.tokens = (event.get("details") or {}).get("generated_tokens", record.tokens)
    record.is_finished |= event.get("finish_reason") is not None
    return bool(event.get("text_output"))


DIALECTS: Final = {
    DialectName.OPENAI_CHAT: Dialect("/v1/chat/completions", _chat, _note_openai),
    DialectName.OPENAI_COMPLETIONS: Dialect("/v1/completions", _completion, _note_openai),
    DialectName.DATABRICKS: Dialect("/serving-endpoints/{model}/invocations", _invocation, _note_openai),
    DialectName.AZURE: Dialect(
        "/chat/completions?api-version=2024-05-01-preview", _chat, _note_openai, "api-key",
        {"extra-parameters": "pass-through"},
    ),
    DialectName.ANTHROPIC: Dialect(
        "/v1/messages", _message, _note_anthropic, "x-api-key", {"anthropic-version": "2023-06-01"}
    ),
    DialectName.MINDIE: Dialect("/v2/models/{model}/generate_stream", _text, _note_mindie),
}  # fmt: skip
