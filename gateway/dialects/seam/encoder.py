"""The interface of encoders, which turn the service's answers into bytes."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from typing import Any, Final, Protocol

from google.protobuf.message import Message

from gateway.dialects.seam.failure import Failure

COMMENT: Final = b": keep-alive\n\n"  # of server-sent events

_ENDS: Final = frozenset({"completed", "incomplete", "failed", "cancelled"})  # the terminal events of the streams


class FramedAnswer(bytes):
    """The body of a whole answer of another media type than JSON, with its headers."""

    media_type = b"application/octet-stream"
    headers: tuple[tuple[bytes, bytes], ...] = ()


class StreamFormat(enum.Enum):
    """How a stream separates its chunks. The value is the media type."""

    EVENTS = "text/event-stream"
    LINES = "application/x-ndjson"


class Encoder(Protocol):
    """Turns one answer into the caller's bytes. It has the state of one stream and is used once.

    Events and responses are those of the RPC that answers the request.
    """

    @property
    def ping(self) -> bytes:
        """The bytes to send while a stream is idle; empty if clients fail on lines other than data."""

    def chunk(self, event: Any) -> bytes:
        """Return complete SSE events, or lines, for one event of the service, or empty bytes."""

    def whole(self, response: Any) -> bytes:
        """Return the body of an unstreamed answer: JSON, unless it is a FramedAnswer."""

    def error(self, failure: Failure) -> bytes:
        """Return the last SSE event, or line, of a failed stream."""


class WholeEncoder(ABC):
    """An encoder of answers that are never streamed: its request has `stream` False."""

    ping = b""

    @abstractmethod
    def whole(self, response: Any) -> bytes:
        """Return the body of the answer: JSON, unless it is a FramedAnswer."""

    def chunk(self, event: Message) -> bytes:
        """Raise TypeError: there is no stream."""
        raise TypeError(f"{type(event).__name__} belongs to a stream")

    def error(self, failure: Failure) -> bytes:
        """Raise TypeError: there is no stream."""
        raise TypeError(f"no stream is open to end with {failure.reason}")


def ends_answer(event: Message | None) -> bool:
    """Return True if `event` is the terminal event of a stream; an answer without it is incomplete."""
    return event is not None and event.WhichOneof("event") in _ENDS
