"""The answers and errors of Cohere's API, as types for the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Count = Annotated[int, Meta(ge=0)]


class ChatTokens(msgspec.Struct):
    """The number of tokens read and generated."""

    input_tokens: Count
    output_tokens: Count


class ChatUsage(msgspec.Struct):
    """The usage of a chat."""

    tokens: ChatTokens
    cached_tokens: Count


class AssistantMessage(msgspec.Struct, omit_defaults=True):
    """The model's message: items of text or thinking, and tool calls."""

    role: Literal["assistant"]
    content: list[dict[str, Any]]
    tool_calls: list[dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET


class LogprobItem(msgspec.Struct):
    """The log probabilities of the tokens of a text."""

    text: str
    token_ids: list[Count]
    logprobs: list[float]


class CohereChatAnswer(msgspec.Struct, omit_defaults=True):
    """A chat's answer."""

    id: str
    finish_reason: Literal["COMPLETE", "STOP_SEQUENCE", "MAX_TOKENS", "TOOL_CALL", "ERROR"]
    message: AssistantMessage
    usage: ChatUsage
    logprobs: list[LogprobItem] | msgspec.UnsetType = msgspec.UNSET
    receipt: str | msgspec.UnsetType = msgspec.UNSET


class CohereChatEvent(msgspec.Struct):
    """An event of a chat, by its `type`; `message-end` has the reason of the end and the usage."""

    type: Literal[
        "message-start",
        "content-start",
        "content-delta",
        "content-end",
        "tool-call-start",
        "tool-call-delta",
        "tool-call-end",
        "message-end",
    ]
    id: str | None = None
    index: Count | None = None
    delta: dict[str, Any] | None = None
    logprobs: LogprobItem | None = None
    receipt: str | None = None


class CohereEmbedAnswer(msgspec.Struct, omit_defaults=True):
    """The vectors, by their type."""

    id: str
    response_type: Literal["embeddings_by_type"]
    embeddings: dict[str, list[Any]]
    meta: dict[str, Any]
    texts: list[str] | msgspec.UnsetType = msgspec.UNSET


class CohereError(msgspec.Struct):
    """An error of Cohere's API."""

    id: str
    message: str
