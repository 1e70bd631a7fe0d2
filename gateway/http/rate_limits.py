"""Copy the state of a caller's limits from the service to the answer's headers.

Each request has one record in a context variable: the service client fills it, and the observer sends it. Used on the
event loop's thread only.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from typing import Final, TypeAlias

Headers: TypeAlias = dict[bytes, bytes]

_PREFIXES: Final = ("x-ratelimit-", "x-sluice-limit")

_current: ContextVar[Headers | None] = ContextVar("rate_limits", default=None)


def collect_rate_limits() -> Headers:
    """Begin to collect rate limits in this task and its child tasks, and return the record."""
    headers: Headers = {}
    _current.set(headers)
    return headers


def current_rate_limits() -> Headers:
    """Return the rate limits received so far."""
    return _current.get() or {}


def set_rate_limits(metadata: Iterable[tuple[str, str | bytes]] | None) -> None:
    """Store the rate limits from the service's metadata, replacing earlier values."""
    headers = _current.get()
    if headers is None:
        return
    for name, value in metadata or ():
        if name.startswith(_PREFIXES) and isinstance(value, str):
            headers[name.encode()] = value.encode()
