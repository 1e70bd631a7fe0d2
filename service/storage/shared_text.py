"""A text that replicas share in Redis or Valkey; a change requires the newest version.

All methods block, for `timeout_s` at most, and are called by one thread at a time. If the server has lost the text, the
first replica that still knows it writes it back, and a replica that knows a later state overwrites that. A revision is
a growing number and a random part; the random part distinguishes two changes of one state that a server accepted before
and after it lost the text.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_PREFIX = "sluice:"
_NONE = "0"  # the revision of no text
# Replace a text and its revision if the revision is still the one that was read.
_WRITE = """
if (redis.call('HGET', KEYS[1], 'revision') or '0') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'revision', ARGV[2], 'text', ARGV[3])
return 1
"""


class SharedTextLost(Exception):  # noqa: N818  the name says what happened
    """The server can't be used now; the text has the cause."""


class Outdated(Exception):  # noqa: N818  the name says what happened
    """Another process has changed the text since it was read."""


class SharedText:
    """A `TextStore` in one Redis key."""

    def __init__(self, url: str, name: str, timeout_s: float = 1.0) -> None:
        """Connect on first use. Raises ValueError for an invalid URL."""
        # Imported late: most services share nothing.
        from redis import Redis  # noqa: PLC0415
        from redis.backoff import NoBackoff  # noqa: PLC0415
        from redis.retry import Retry  # noqa: PLC0415

        self._name = _PREFIX + name
        self._redis: Any = Redis.from_url(
            url,
            decode_responses=True,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),
        )
        self._write = self._redis.register_script(_WRITE)
        self._revision = _NONE
        self._text: str | None = None

    def read(self) -> str | None:
        """Return the newest text, or None if there is none. Raises SharedTextLost."""
        with _asking():
            revision, text = self._redis.hmget(self._name, "revision", "text")
            if self._text is not None and _number(revision or _NONE) < _number(self._revision):
                self._write(keys=[self._name], args=[revision or _NONE, self._revision, self._text])
                revision, text = self._redis.hmget(self._name, "revision", "text")
            if revision is not None and _number(revision) >= _number(self._revision):
                self._revision, self._text = revision, text
        return self._text

    def write(self, text: str) -> None:
        """Replace the text that was read or written last. Raises SharedTextLost or Outdated."""
        revision = f"{_number(self._revision) + 1}-{secrets.token_hex(8)}"
        with _asking():
            is_done = self._write(keys=[self._name], args=[self._revision, revision, text])
        if not is_done:
            raise Outdated
        self._revision, self._text = revision, text

    def is_newer(self) -> bool:
        """Return whether the text isn't the one that was read or written last. Raises SharedTextLost."""
        with _asking():
            return bool((self._redis.hget(self._name, "revision") or _NONE) != self._revision)

    def unreadable(self, reason: str) -> SharedTextLost:
        """The error for a text that can't be parsed."""
        return SharedTextLost(f"the text of {self._name} can't be read: {reason}")

    def close(self) -> None:
        """Disconnect."""
        self._redis.close()


def _number(revision: str) -> int:
    return int(revision.partition("-")[0])


@contextmanager
def _asking() -> Iterator[None]:
    from redis.exceptions import RedisError  # noqa: PLC0415

    try:
        yield
    except (RedisError, OSError, ValueError) as error:  # ValueError for an invalid revision or text
        raise SharedTextLost(" ".join(str(error).split()) or type(error).__name__) from error
