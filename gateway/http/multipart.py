"""Read the parts of a `multipart/form-data` body (RFC 7578) while it arrives."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from gateway.dialects.seam.failure import Failure, Reason

_MAX_HEADERS: Final = 8 * 1024  # bytes of one part's headers
_PARAMETER: Final = re.compile(r';\s*([a-z]+)=(?:"((?:[^"\\]|\\.)*)"|([^;\s"]+))', re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PartBegin:
    """The beginning of a part: a field of the form, or a file if it has a name of its own."""

    name: str
    filename: str | None


class _State(Enum):
    PREAMBLE = auto()
    AFTER_DELIMITER = auto()
    HEADERS = auto()
    CONTENT = auto()
    END = auto()


class Multipart:
    """A reader that is fed with the body's bytes in order."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        """Raise Failure unless the request's content type is a form with a boundary."""
        kind, _, parameters = headers.get("content-type", "").partition(";")
        boundary = re.search(r"boundary=(?:\"([^\"]+)\"|([^;\s]+))", parameters)
        if kind.strip().lower() != "multipart/form-data" or boundary is None:
            raise Failure(Reason.NOT_FORM, "the content-type must be multipart/form-data with a boundary")
        self._delimiter = b"\r\n--" + (boundary[1] or boundary[2]).encode("latin-1")
        self._buffer = bytearray(b"\r\n")  # before the first delimiter, which begins the body
        self._state = _State.PREAMBLE

    def feed(self, data: bytes) -> Iterator[PartBegin | bytes]:
        """Yield the beginnings of parts, each followed by its content in pieces. Raise Failure."""
        self._buffer += data
        while (found := self._step()) is not None:
            if found != b"":
                yield found

    def end(self) -> None:
        """Raise Failure if the body is not complete."""
        if self._state is not _State.END:
            raise _malformed("the form ends before its last boundary")

    def _step(self) -> PartBegin | bytes | None:
        """Advance by one piece, and return it, empty bytes, or None if more data is needed."""
        match self._state:
            case _State.PREAMBLE | _State.CONTENT:
                return self._until_delimiter()
            case _State.AFTER_DELIMITER:
                return self._after_delimiter()
            case _State.HEADERS:
                return self._headers()
            case _:
                return None

    def _until_delimiter(self) -> bytes | None:
        is_content = self._state is _State.CONTENT
        end = self._buffer.find(self._delimiter)
        if end >= 0:
            content = bytes(self._buffer[:end])
            del self._buffer[: end + len(self._delimiter)]
            self._state = _State.AFTER_DELIMITER
            return content if is_content else b""
        num_complete = len(self._buffer) - len(self._delimiter) + 1  # the rest may begin a delimiter
        if num_complete <= 0:
            return None
        content = bytes(self._buffer[:num_complete])
        del self._buffer[:num_complete]
        return content if is_content else b""

    def _after_delimiter(self) -> bytes | None:
        if len(self._buffer) < 2:
            return None
        if self._buffer[:2] == b"--":
            self._state = _State.END
        elif self._buffer[:2] == b"\r\n":
            self._state = _State.HEADERS
        else:
            raise _malformed("a boundary of the form is not followed by a new line")
        if self._state is _State.END:
            del self._buffer[:]
        return b""

    def _headers(self) -> PartBegin | None:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > _MAX_HEADERS:
                raise _malformed(f"the headers of a part exceed the limit of {_MAX_HEADERS} bytes")
            return None
        text = bytes(self._buffer[:end]).decode("utf-8", "replace")
        del self._buffer[: end + 4]
        self._state = _State.CONTENT
        for line in text.split("\r\n"):
            header, _, value = line.partition(":")
            if header.strip().lower() == "content-disposition":
                found = _PARAMETER.findall(value)
                parameters = {name.lower(): token or re.sub(r"\\(.)", r"\1", text) for name, text, token in found}
                if "name" in parameters:
                    return PartBegin(parameters["name"], parameters.get("filename"))
        raise _malformed("a part of the form has no name")


def _malformed(text: str) -> Failure:
    return Failure(Reason.INVALID_FIELD, text)
