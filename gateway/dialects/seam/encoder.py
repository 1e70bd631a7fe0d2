"""The interface of encoders, which turn the service's answers into bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final, Protocol

from google.protobuf.message import Message

from gateway.dialects.seam.failure import Failure

COMMENT: Final = b": keep-alive\n\n"  # of server-sent events

_ENDS: Final = frozenset({"completed", "incomplete"})  # of the events, the last of an answer that was sent whole


class Encoder(Protocol):
    """Turns one answer into the caller's bytes. It has the state of one stream and is used once.

    Events and responses are those of the RPC that answers the request.
    """

    @property
    def ping(self) -> bytes:
        """What goes out while a stream is silent; nothing where clients raise on lines that aren't data."""

    def chunk(self, event: Any) -> bytes:
        """What goes out for one event: whole SSE events, or nothing."""

    def whole(self, response: Any) -> bytes:
        """Return the body of an unstreamed answer."""

    def error(self, failure: Failure) -> bytes:
        """The last SSE event of a stream that failed."""


class WholeEncoder(ABC):
    """An encoder of answers that are never streamed: its request has `stream` False."""

    ping = b""

    @abstractmethod
    def whole(self, response: Any) -> bytes:
        """Return the body of the answer."""

    def chunk(self, event: Message) -> bytes:
        """There is no stream. Raises TypeError."""
        raise TypeError(f"{type(event).__name__} belongs to a stream")

    def error(self, failure: Failure) -> bytes:
        """There is no stream. Raises TypeError."""
        raise TypeError(f"no stream is open to end with {failure.reason}")


def ends_answer(event: Message | None) -> bool:
    """Whether a stream's `event` is the terminal one. The end is a message; without it an answer is not whole."""
    return event is not None and event.WhichOneof("event") in _ENDS
