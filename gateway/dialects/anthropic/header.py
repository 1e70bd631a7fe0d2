"""Response headers of Anthropic's API: the request id, and the state of the caller's rate limits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

VERSION: Final = "anthropic-version"  # sent with every request by its clients

_LIMIT: Final = re.compile(rb"x-ratelimit-(limit|remaining|reset)-(requests|tokens|input-tokens|output-tokens)")
_DURATION: Final = re.compile(rb"(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s|(\d+)ms)")


def response_headers(request_id: str, limits: Mapping[bytes, bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield an answer's headers; `limits` are in OpenAI's form: `x-ratelimit-reset-requests: 6m0s`."""
    yield b"request-id", request_id.encode()
    for name, value in limits.items():
        if limit := _LIMIT.fullmatch(name):
            converted = _reset_time(value) if limit[1] == b"reset" else value
            yield b"anthropic-ratelimit-%b-%b" % (limit[2], limit[1]), converted


def _reset_time(duration: bytes) -> bytes:
    """Return the end of a duration that starts now, as an RFC 3339 timestamp."""
    seconds = 0.0
    if (parts := _DURATION.fullmatch(duration)) is not None:
        minutes, rest, milliseconds = (float(part or 0) for part in parts.groups())
        seconds = 60 * minutes + rest + milliseconds / 1000
    then = datetime.now(UTC) + timedelta(seconds=seconds)
    return datetime.fromtimestamp(round(then.timestamp()), UTC).strftime("%Y-%m-%dT%H:%M:%SZ").encode()
