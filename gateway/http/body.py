"""Read the JSON body of an HTTP request.

Other content types, content encodings, and bodies above the size limit are rejected before parsing.
"""

from __future__ import annotations

from collections.abc import Mapping

from starlette.types import Receive

from gateway.dialects.seam.failure import Failure, Reason


class CallerLeft(Exception):  # noqa: N818  a name states the condition
    """The client closed the connection before the response was complete."""


async def read_json_body(headers: Mapping[str, str], receive: Receive, max_bytes: int) -> bytes:
    """Return the complete body. Raise Failure (413, 415), and CallerLeft if the client disconnects first."""
    _check_type(headers)
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length) > max_bytes:
        raise _too_large(max_bytes)
    chunks: list[bytes] = []
    num_bytes = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise CallerLeft
        chunk: bytes = message.get("body", b"")
        num_bytes += len(chunk)
        if num_bytes > max_bytes:
            raise _too_large(max_bytes)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks)


async def disconnected(receive: Receive) -> None:
    """Return when the client has closed the connection. The body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _check_type(headers: Mapping[str, str]) -> None:
    """Raise Failure unless the content type is JSON in UTF-8."""
    # Without a content type, browsers send the requests of any site's pages.
    content_type, _, parameters = headers.get("content-type", "").partition(";")
    if content_type.strip().lower() != "application/json":
        raise Failure(Reason.NOT_JSON, "the content-type must be application/json")
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value.strip(' "').lower() not in {"utf-8", "utf8", "us-ascii"}:
            raise Failure(Reason.NOT_JSON, "the body's charset must be utf-8")
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise Failure(Reason.NOT_JSON, "compressed bodies are not supported")


def _too_large(max_bytes: int) -> Failure:
    return Failure(Reason.BODY_TOO_LARGE, f"the body exceeds the limit of {max_bytes} bytes")
