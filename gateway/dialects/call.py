"""What a dialect hands to the gateway, and what it takes.

Owns the seam between HTTP and the dialects: a translator is made for one request; its `parse` turns what arrived into
a `Call`, whose encoder turns the service's answer into the caller's bytes. A new dialect is new files behind these
protocols, and nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from google.protobuf.message import Message
from sluice.v1.chat_pb2 import ChatRequest
from sluice.v1.completion_pb2 import CompleteRequest
from sluice.v1.embedding_pb2 import EmbedRequest
from sluice.v1.response_pb2 import CreateResponseRequest
from sluice.v1.text_generation_pb2 import GenerateTextRequest

from gateway.dialects.failure import Failure

ServiceRequest: TypeAlias = ChatRequest | CompleteRequest | EmbedRequest | GenerateTextRequest | CreateResponseRequest
RequestT_co = TypeVar("RequestT_co", bound=ServiceRequest, covariant=True)

_ENDS: Final = frozenset({"completed", "incomplete"})  # of the events, the last of an answer that was sent whole


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
    """Turns one answer into the caller's bytes. It has the state of one stream and is used once.

    Events and responses are those of the RPC that the call's request belongs to.
    """

    @property
    def takes_comments(self) -> bool:
        """Whether the dialect's clients bear SSE comment lines."""

    def chunk(self, event: Any) -> bytes:
        """What goes out for one event: whole SSE events, or nothing."""

    def whole(self, response: Any) -> bytes:
        """The body of an unstreamed answer."""

    def error(self, failure: Failure) -> bytes:
        """The last SSE event of a stream that failed."""


class WholeEncoder(ABC):
    """An encoder of answers that are never streamed: its call has `stream` False."""

    takes_comments = False

    @abstractmethod
    def whole(self, response: Any) -> bytes:
        """The body of the answer."""

    def chunk(self, event: Message) -> bytes:
        """There is no stream. Raises TypeError."""
        raise TypeError(f"{type(event).__name__} belongs to a stream")

    def error(self, failure: Failure) -> bytes:
        """There is no stream. Raises TypeError."""
        raise TypeError(f"no stream is open to end with {failure.reason}")


@dataclass(frozen=True, slots=True)
class Call(Generic[RequestT_co]):
    """One parsed request.

    The type of `request` decides which RPC answers; EmbedRequest has none that streams. `caller_name` maps a field path
    of the contract (`sampling.top_k`, `messages.0.content.0.text`) to the name that the caller used. `affinity` is the
    caller's prompt cache key, or empty.
    """

    request: RequestT_co
    stream: bool
    encoder: Encoder
    caller_name: Callable[[str], str]
    affinity: str = ""


class Translator(Protocol):
    """One request's translation into and out of a dialect."""

    def parse(self, arrival: Arrival) -> Call[ServiceRequest]:
        """Read a request. Raises Failure with the caller's field names."""

    def refuse(self, failure: Failure) -> Refusal:
        """Answer with an error instead of a result."""


def ends_answer(event: Message | None) -> bool:
    """Whether a stream's `event` is the terminal one. The end is a message; without it an answer is not whole."""
    return event is not None and event.WhichOneof("event") in _ENDS
