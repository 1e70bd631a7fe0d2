"""Copy the state of a caller's limits from the service to the answer's headers.

Each request has one record, found through a context variable by the client, which fills it, and the observer, which
sends it. Only the loop's thread touches it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from typing import Final, TypeAlias

Headers: TypeAlias = dict[bytes, bytes]

_PREFIX: Final = "x-ratelimit-"

_current: ContextVar[Headers | None] = ContextVar("rate_limits", default=None)


def collect_rate_limits() -> Headers:
    """What is said of limits from now on, in this task and those that it starts."""
    headers: Headers = {}
    _current.set(headers)
    return headers


def current_rate_limits() -> Headers:
    """What was said of limits so far."""
    return _current.get() or {}


def note_rate_limits(metadata: Iterable[tuple[str, str | bytes]] | None) -> None:
    """Keep what the service's metadata says of limits, in place of what it said before."""
    headers = _current.get()
    if headers is None:
        return
    for name, value in metadata or ():
        if name.startswith(_PREFIX) and isinstance(value, str):
            headers[name.encode()] = value.encode()
