"""Receive the JSON body of an HTTP request.

Other content types, content encodings, and bodies above the size limit are rejected before parsing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Final

from starlette.types import Receive

from gateway.dialects.seam.failure import Failure, Reason

_UNTYPED: Final = ("", "application/x-www-form-urlencoded")  # of clients that set no type; the latter is curl's
_OF_BROWSERS: Final = ("origin", "referer", "sec-fetch-site")  # a script's request has at least the first one
_FRAMED: Final = "inference-header-content-length"  # pages of other sites can't send it


class ClientDisconnected(Exception):  # noqa: N818  a name states the condition
    """The client closed the connection before the response was complete."""


def declared_length(headers: Mapping[str, str], max_bytes: int) -> int | None:
    """Return the declared length of a JSON body, None if it is sent in chunks. Raise Failure (413, 415)."""
    _check_type(headers)
    if "transfer-encoding" in headers:
        return None
    text = headers.get("content-length", "")
    length = int(text) if text.isdecimal() else 0
    if length > max_bytes:
        raise _too_large(max_bytes)
    return length


async def body_parts(receive: Receive, max_bytes: int) -> AsyncIterator[bytes]:
    """Yield the body's parts.

    Raise Failure (413), and ClientDisconnected if the client disconnects before the last one.
    """
    num_bytes = 0
    is_last = False
    while not is_last:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        part: bytes = message.get("body", b"")
        num_bytes += len(part)
        if num_bytes > max_bytes:
            raise _too_large(max_bytes)
        is_last = not message.get("more_body", False)
        yield part


async def disconnected(receive: Receive) -> None:
    """Return when the client has closed the connection. The body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _check_type(headers: Mapping[str, str]) -> None:
    """Raise Failure unless the content type is JSON in UTF-8. Only browsers must send one, or framed tensors."""
    # Browsers let pages of any site send requests of some types, and without one.
    content_type, _, parameters = headers.get("content-type", "").partition(";")
    kind = content_type.strip().lower()
    is_untyped = kind in _UNTYPED and not any(name in headers for name in _OF_BROWSERS)
    if kind != "application/json" and not is_untyped and _FRAMED not in headers:
        raise Failure(Reason.NOT_JSON, "the content-type must be application/json")
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value.strip(' "').lower() not in {"utf-8", "utf8", "us-ascii"}:
            raise Failure(Reason.NOT_JSON, "the body's charset must be utf-8")
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise Failure(Reason.NOT_JSON, "compressed bodies are not supported")


def _too_large(max_bytes: int) -> Failure:
    return Failure(Reason.BODY_TOO_LARGE, f"the body exceeds the limit of {max_bytes} bytes")
