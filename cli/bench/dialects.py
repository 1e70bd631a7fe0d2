"""What is asked in each dialect, and what its streams' events tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from cli.bench.record import Record

Event = dict[str, Any]


class Way(StrEnum):
    """How a server is asked."""

    OPENAI_CHAT = "openai-chat"
    OPENAI_COMPLETIONS = "openai-completions"
    DATABRICKS = "databricks"
    AZURE = "azure"
    ANTHROPIC = "anthropic"
    MINDIE = "mindie"
    GRPC = "grpc"  # chats, by the contract; the others are over HTTP


@dataclass(frozen=True, slots=True)
class Ask:
    """One request. `parameters` are further fields of the body."""

    model: str
    prompt: str
    max_tokens: int
    ignores_end: bool = True  # the answer goes on until max_tokens
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dialect:
    """One platform's stream over HTTP."""

    path: str  # with {model}, where that stands there
    body: Callable[[Ask], Event]
    note: Callable[[Event, Record], bool]  # takes an event's numbers; whether it has text
    key_header: str = "authorization"
    headers: Mapping[str, str] = field(default_factory=dict)

    def head(self, key: str) -> dict[str, str]:
        """The headers of every request, the key's too if there is one."""
        found = {"content-type": "application/json", "accept": "text/event-stream", **self.headers}
        if key:
            found[self.key_header] = f"Bearer {key}" if self.key_header == "authorization" else key
        return found


def _common(ask: Ask) -> Event:
    ends = {"ignore_eos": True} if ask.ignores_end else {}
    return {"model": ask.model, "stream": True, "max_tokens": ask.max_tokens, **ends}


def _chat(ask: Ask) -> Event:
    usage = {"stream_options": {"include_usage": True}}
    return {**_common(ask), **usage, "messages": [{"role": "user", "content": ask.prompt}], **ask.parameters}


def _invocation(ask: Ask) -> Event:
    return {name: value for name, value in _chat(ask).items() if name != "model"}  # the path has it


def _completion(ask: Ask) -> Event:
    return {**_common(ask), "stream_options": {"include_usage": True}, "prompt": ask.prompt, **ask.parameters}


def _message(ask: Ask) -> Event:
    return {**_common(ask), "messages": [{"role": "user", "content": ask.prompt}], **ask.parameters}


def _text(ask: Ask) -> Event:
    """Without `ignore_eos`, which this dialect doesn't have."""
    parameters = {"max_new_tokens": ask.max_tokens, "details": True, **ask.parameters}
    return {"text_input": ask.prompt, "parameters": parameters}


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
    Way.OPENAI_CHAT: Dialect("/v1/chat/completions", _chat, _note_openai),
    Way.OPENAI_COMPLETIONS: Dialect("/v1/completions", _completion, _note_openai),
    Way.DATABRICKS: Dialect("/serving-endpoints/{model}/invocations", _invocation, _note_openai),
    Way.AZURE: Dialect(
        "/chat/completions?api-version=2024-05-01-preview", _chat, _note_openai, "api-key",
        {"extra-parameters": "pass-through"},
    ),
    Way.ANTHROPIC: Dialect(
        "/v1/messages", _message, _note_anthropic, "x-api-key", {"anthropic-version": "2023-06-01"}
    ),
    Way.MINDIE: Dialect("/v2/models/{model}/generate_stream", _text, _note_mindie),
}  # fmt: skip
