"""What Anthropic's API says in headers: the request's id, and where the caller stands with its limits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

VERSION: Final = "anthropic-version"  # which every request of its clients has

_LIMIT: Final = re.compile(rb"x-ratelimit-(limit|remaining|reset)-(requests|tokens|input-tokens|output-tokens)")
_DURATION: Final = re.compile(rb"(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s|(\d+)ms)")


def response_headers(request_id: str, limits: Mapping[bytes, bytes]) -> Iterator[tuple[bytes, bytes]]:
    """The headers of an answer; `limits` are told as OpenAI's clients read them: `x-ratelimit-reset-requests: 6m0s`."""
    yield b"request-id", request_id.encode()
    for name, value in limits.items():
        if limit := _LIMIT.fullmatch(name):
            told = _when(value) if limit[1] == b"reset" else value
            yield b"anthropic-ratelimit-%b-%b" % (limit[2], limit[1]), told


def _when(duration: bytes) -> bytes:
    """The instant at which a duration from now is over, by RFC 3339."""
    seconds = 0.0
    if (parts := _DURATION.fullmatch(duration)) is not None:
        minutes, rest, milliseconds = (float(part or 0) for part in parts.groups())
        seconds = 60 * minutes + rest + milliseconds / 1000
    then = datetime.now(UTC) + timedelta(seconds=seconds)
    return datetime.fromtimestamp(round(then.timestamp()), UTC).strftime("%Y-%m-%dT%H:%M:%SZ").encode()
