"""A text that replicas share in Redis or Valkey; a change requires the newest version.

All methods block, for `timeout_s` at most, and are called by one thread at a time. If the server has lost the text, the
first replica that knows the text restores it, and a replica that knows a later state overwrites the restored one. A
revision is a growing number and a random part; the random part distinguishes two changes of one state that a server
accepted before and after it lost the text.
"""

from __future__ import annotations

import contextlib
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


RECORD_S = 5  # seconds until a replica without a new record counts as gone
# Record the revision that a replica knows, and count the other replicas that know an earlier one.
_RECORD = """
local now = tonumber(redis.call('TIME')[1])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ' ' .. now)
redis.call('EXPIRE', KEYS[1], 60)
local entries = redis.call('HGETALL', KEYS[1])
local behind = 0
for index = 1, #entries, 2 do
  local revision, seen = string.match(entries[index + 1], '^(%d+) (%d+)$')
  if not revision or now - tonumber(seen) > tonumber(ARGV[3]) then redis.call('HDEL', KEYS[1], entries[index])
  elseif tonumber(revision) < tonumber(ARGV[2]) then behind = behind + 1 end
end
return behind
"""


class SharedTextLost(Exception):  # noqa: N818  the name says what happened
    """The server can't be used now; the text has the cause."""


class Outdated(Exception):  # noqa: N818  the name says what happened
    """Another process has changed the text since it was read."""


class SharedText:
    """A `TextStore` in one Redis key."""

    def __init__(self, url: str, name: str, timeout_s: float = 1.0) -> None:
        """Connect on first use. Raise ValueError for an invalid URL."""
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
        self._record = self._redis.register_script(_RECORD)
        self._reader = secrets.token_hex(8)  # identifies this process among the readers
        self._revision = _NONE
        self._text: str | None = None

    def read(self) -> str | None:
        """Return the newest text, or None if there is none. Raise SharedTextLost."""
        with _translate_errors():
            revision, text = self._redis.hmget(self._name, "revision", "text")
            if self._text is not None and _number(revision or _NONE) < _number(self._revision):
                self._write(keys=[self._name], args=[revision or _NONE, self._revision, self._text])
                revision, text = self._redis.hmget(self._name, "revision", "text")
            if revision is not None and _number(revision) >= _number(self._revision):
                self._revision, self._text = revision, text
        return self._text

    def write(self, text: str) -> None:
        """Replace the text that was read or written last. Raise SharedTextLost or Outdated."""
        revision = f"{_number(self._revision) + 1}-{secrets.token_hex(8)}"
        with _translate_errors():
            is_done = self._write(keys=[self._name], args=[self._revision, revision, text])
        if not is_done:
            raise Outdated
        self._revision, self._text = revision, text

    def is_newer(self) -> bool:
        """Return whether the text isn't the one that was read or written last. Raise SharedTextLost."""
        with _translate_errors():
            return bool((self._redis.hget(self._name, "revision") or _NONE) != self._revision)

    def num_behind(self) -> int:
        """Record that this process knows the text read or written last, and return how many others don't know it.

        Raise SharedTextLost.
        """
        with _translate_errors():
            return int(self._record(keys=[self._known], args=[self._reader, _number(self._revision), RECORD_S]))

    def unreadable(self, reason: str) -> SharedTextLost:
        """The error for a text that can't be parsed."""
        return SharedTextLost(f"the text of {self._name} can't be read: {reason}")

    def close(self) -> None:
        """Disconnect, and stop counting this process as a reader."""
        with contextlib.suppress(SharedTextLost), _translate_errors():
            self._redis.hdel(self._known, self._reader)
        self._redis.close()

    @property
    def _known(self) -> str:
        """The key that has the revision that each replica knows."""
        return f"{self._name}:known"


def _number(revision: str) -> int:
    """Return the number at a revision's beginning. Raise ValueError."""
    return int(revision.partition("-")[0])


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Raise the errors of Redis's client as SharedTextLost."""
    from redis.exceptions import RedisError  # noqa: PLC0415

    try:
        yield
    except (RedisError, OSError, ValueError) as error:  # ValueError for an invalid revision or text
        raise SharedTextLost(" ".join(str(error).split()) or type(error).__name__) from error
