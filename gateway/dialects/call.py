"""What a dialect hands to the gateway, and what it takes.

Owns the seam between HTTP and the dialects: a translator is made for one request; its `parse` turns what arrived into
a `Call`, whose encoder turns the service's answer into the caller's bytes. A new dialect is new files behind these
protocols, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from sluice.v1.chat_pb2 import ChatRequest, ChatResponse, StreamChatResponse

from gateway.dialects.failure import Failure


@dataclass(frozen=True, slots=True)
class Arrival:
    """What arrived: the body's bytes, and the parts of an HTTP request that a dialect may read.

    `headers` and `query` have the last of repeated names; header names are in lower case.
    """

    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error as one dialect answers it. The headers are those that only this dialect has."""

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Encoder(Protocol):
    """Turns one answer into the caller's bytes. It has the state of one stream and is used once."""

    @property
    def takes_comments(self) -> bool:
        """Whether the dialect's clients bear SSE comment lines."""

    def chunk(self, event: StreamChatResponse) -> bytes:
        """What goes out for one event: whole SSE events, or nothing."""

    def whole(self, response: ChatResponse) -> bytes:
        """The body of an unstreamed answer."""

    def error(self, failure: Failure) -> bytes:
        """The last SSE event of a stream that failed."""


@dataclass(frozen=True, slots=True)
class Call:
    """One parsed request.

    `caller_name` maps a field path of the contract (`sampling.top_k`, `messages.0.content.0.text`) to the name that
    the caller used. `affinity` is the caller's prompt cache key, or empty.
    """

    request: ChatRequest
    stream: bool
    encoder: Encoder
    caller_name: Callable[[str], str]
    affinity: str = ""


class Translator(Protocol):
    """One request's translation into and out of a dialect."""

    def parse(self, arrival: Arrival) -> Call:
        """Read a request. Raises Failure with the caller's field names."""

    def refuse(self, failure: Failure) -> Refusal:
        """Answer with an error instead of a result."""
