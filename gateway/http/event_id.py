"""The ids of a stream's events, and the resumption of a stream after one of them.

An id contains everything needed to resume the stream, at this gateway or another one; the gateway stores nothing. It is
opaque to clients and not secret: a client that changes it affects only its own stream.
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
_END: Final = b"\n\n"  # ends an event
_FORM: Final = re.compile(r"([\w-]{1,2000})\.(\d{1,19})\.(\d{1,3})\.([\w-]{1,6000})", re.ASCII)


@dataclass(frozen=True, slots=True)
class EventId:
    """The position after one event.

    `sequence_number` is the number of the last service message all of whose events were sent. `num_events` is the
    number of events that were sent of the following message, to which `position` belongs; 0 if `position` belongs to
    the last complete message.
    """

    stream: bytes
    position: bytes
    sequence_number: int
    num_events: int = 0

    @classmethod
    def from_headers(cls, headers: Mapping[str, str]) -> Self | None:
        """Return the event after which a request resumes, or None. Raise Failure (400) if it is malformed."""
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

    def set_resume_options(self, request: Any) -> None:
        """Set the resume options of a request."""
        resume = request.resume
        resume.stream, resume.position, resume.sequence_number = self.stream, self.position, self.sequence_number
        resume.replay = True


class EventMarks:
    """Adds ids to the events of one stream, and drops events that the client has already received."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        """Read the request's headers. Raise Failure (400)."""
        self.last = EventId.from_headers(headers)
        self._has_ids = self.last is not None or _is_on(headers.get(SWITCH, ""))
        self._head = b""  # the common beginning of the ids
        self._unsent = self.last  # None once events follow that the client has not received

    def put(self, chunk: bytes, message: Any) -> bytes:
        """Return the events of a message that are to be sent, with ids if the stream can be resumed."""
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
        """Return a chunk whose events have ids, from which the stream can be resumed."""
        last = b"%b.%d.0.%b\n" % (self._head, number, position)
        if chunk.find(_END) == len(chunk) - len(_END):
            return last + chunk
        events = chunk.split(_END)[:-1]
        before = [b"%b.%d.%d.%b\n" % (self._head, number - 1, index, position) for index in range(1, len(events))]
        return b"".join(mark + event + _END for mark, event in zip([*before, last], events, strict=True))


def _is_on(switch: str) -> bool:
    """Return whether event ids are requested. Raise Failure for an invalid value."""
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
