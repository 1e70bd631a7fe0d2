"""The ids of a stream's events, and the resumption of a stream after one of them.

An id has all that the stream is taken up again by, at this gateway or another one: nothing is kept of it. It is opaque
to callers and no secret; whoever changes it hurts his own stream only.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from gateway.dialects.seam.failure import Failure

HEADER: Final = "last-event-id"
SWITCH: Final = "x-sluice-event-ids"
_END: Final = b"\n\n"  # of an event
_FORM: Final = re.compile(r"([\w-]{1,2000})\.(\d{1,19})\.(\d{1,3})\.([\w-]{1,6000})", re.ASCII)


@dataclass(frozen=True, slots=True)
class EventId:
    """The place after one event.

    `sequence_number` is that of the last message of the service whose events were all sent, `num_events` how many were
    sent of the next one, which had the `position`; 0 if `position` is the last one's.
    """

    stream: bytes
    position: bytes
    sequence_number: int
    num_events: int = 0

    @classmethod
    def of(cls, headers: Mapping[str, str]) -> Self | None:
        """What a request goes on after; None if it asks for a new answer. Raises Failure (400) for a broken one."""
        text = headers.get(HEADER, "").strip()
        if not text:
            return None
        found = _FORM.fullmatch(text)
        try:
            stream, position = (_decoded(found[1]), _decoded(found[4])) if found else (b"", b"")
        except ValueError:  # of base64
            stream = b""
        if not found or not stream:
            raise Failure.of_field(HEADER, "is not the id of an event of this server")
        return cls(stream, position, int(found[2]), int(found[3]))

    def ask(self, request: Any) -> None:
        """Let a request of the contract go on there."""
        resume = request.resume
        resume.stream, resume.position, resume.sequence_number = self.stream, self.position, self.sequence_number
        resume.replay = True


class EventMarks:
    """What stands before the events of one stream, and which of them are sent."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        """By the request's headers. Raises Failure (400)."""
        self.last = EventId.of(headers)
        self._has_ids = self.last is not None or _is_on(headers.get(SWITCH, ""))
        self._head = b""  # of each id
        self._unsent = self.last  # until what comes is new

    def put(self, chunk: bytes, message: Any) -> bytes:
        """What is to be sent of a message's SSE events, each with its id, as far as the service tells one."""
        if message.stream and self._has_ids:
            self._head = b"id: " + _encoded(message.stream)
        if self._head and chunk and message.position:
            chunk = self._marked(chunk, message.sequence_number, _encoded(message.position))
        if (last := self._unsent) is not None:
            if message.sequence_number <= last.sequence_number:
                return b""
            self._unsent = None
            if last.num_events:
                return _END.join(chunk.split(_END)[last.num_events :])
        return chunk

    def _marked(self, chunk: bytes, number: int, position: bytes) -> bytes:
        last = b"%b.%d.0.%b\n" % (self._head, number, position)
        if chunk.find(_END) == len(chunk) - len(_END):
            return last + chunk
        events = chunk.split(_END)[:-1]
        before = [b"%b.%d.%d.%b\n" % (self._head, number - 1, index, position) for index in range(1, len(events))]
        return b"".join(mark + event + _END for mark, event in zip([*before, last], events, strict=True))


def _is_on(switch: str) -> bool:
    match switch.strip().lower():
        case "true":
            return True
        case "" | "false":
            return False
    raise Failure.of_field(SWITCH, "must be true or false")


def _encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _decoded(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
