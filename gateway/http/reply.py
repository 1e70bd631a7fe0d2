"""Unstreamed responses over ASGI: JSON or framed, and errors in a dialect's format."""

from __future__ import annotations

import logging
import math
from typing import Final

from starlette.types import Send

from gateway.dialects.seam.encoder import FramedAnswer
from gateway.dialects.seam.error_response import ErrorResponse
from gateway.dialects.seam.failure import Failure, Reason

_CHALLENGE_STATUSES: Final = frozenset({401, 403})
_MAX_CHUNK: Final = 256 * 1024  # bytes

_LOGGER = logging.getLogger(__name__)


def to_failure(error: Exception, request_id: str) -> Failure:
    """Return the failure for an exception; an unexpected one is logged, and its text is not returned to the client."""
    if isinstance(error, Failure):
        failure = error
    else:
        _LOGGER.error("unexpected error", exc_info=error, extra={"fields": {"request_id": request_id}})
        failure = Failure(Reason.INTERNAL, f"internal error; the request id is {request_id}")
    failure.request_id = request_id
    return failure


async def send_answer(send: Send, answer: bytes) -> None:
    """Send a whole answer with status 200."""
    if isinstance(answer, FramedAnswer):
        await _send(send, 200, answer, answer.media_type, answer.headers)
    else:
        await send_json(send, 200, answer)


async def send_json(send: Send, status: int, body: bytes, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
    """Send a complete JSON response."""
    await _send(send, status, body, b"application/json", headers)


async def _send(
    send: Send, status: int, body: bytes, media_type: bytes, headers: tuple[tuple[bytes, bytes], ...]
) -> None:
    """Send a complete response in pieces, so that a client that stops reading delays the next piece."""
    fixed = [(b"content-type", media_type), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": [*fixed, *headers]})
    for start in range(0, len(body), _MAX_CHUNK):
        chunk, is_last = body[start : start + _MAX_CHUNK], start + _MAX_CHUNK >= len(body)
        await send({"type": "http.response.body", "body": chunk, "more_body": not is_last})


async def send_error_response(send: Send, response: ErrorResponse, failure: Failure) -> None:
    """Send an error, with the retry delay both in whole seconds and in milliseconds, since clients read either.

    An error about the client's credential has a challenge according to RFC 6750.
    """
    headers = response.headers + challenges(failure)
    if failure.retry_after_s is not None:
        seconds = failure.retry_after_s
        headers += (
            (b"retry-after", b"%d" % math.ceil(seconds)),
            (b"retry-after-ms", b"%d" % math.ceil(seconds * 1000)),
        )
    await send_json(send, response.status, response.body, headers)


def challenges(failure: Failure) -> tuple[tuple[bytes, bytes], ...]:
    """Return the `www-authenticate` header for a failure about the credential, else none."""
    return ((b"www-authenticate", _challenge(failure)),) if failure.status in _CHALLENGE_STATUSES else ()


def _challenge(failure: Failure) -> bytes:
    """Return the value of `www-authenticate` for a failure."""
    if failure.status == 403:
        scopes = f', scope="{scopes}"' if (scopes := failure.values.get("scopes")) else ""
        return f'Bearer realm="sluice", error="insufficient_scope"{scopes}'.encode()
    return b'Bearer realm="sluice"' + (b"" if failure.reason is Reason.MISSING_KEY else b', error="invalid_token"')
