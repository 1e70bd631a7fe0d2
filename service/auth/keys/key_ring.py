"""The keys by id. A ring is immutable: a changed file is loaded as a new ring."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from service.auth.errors import DisabledKey, ExpiredKey, InvalidKey
from service.auth.keys.key import digest, id_of
from service.auth.keys.key_entry import KeyEntry
from service.generation.caller import Caller

_UNKNOWN_DIGEST = "0" * 64  # compared with keys of unknown ids, so that these take as long as known ones


@dataclass(frozen=True, slots=True)
class _Held:
    """One key of a ring. Instants are seconds since the epoch."""

    caller: Caller
    sha256: str
    previous_sha256: str
    previous_expires: float
    expires: float
    disabled: bool


class KeyRing:
    """All keys of a source. Safe for use on any thread."""

    def __init__(self, entries: Iterable[KeyEntry]) -> None:
        self._held = {entry.id: _held(entry) for entry in entries}

    def __len__(self) -> int:
        return len(self._held)

    def caller(self, key: str, now: float) -> Caller:
        """Return the holder of `key` at `now`, in epoch seconds. Raise InvalidKey, ExpiredKey or DisabledKey.

        Only holders of the correct key learn that it has expired or was revoked.
        """
        held = self._held.get(id_of(key) or "")
        found = digest(key)
        is_current = hmac.compare_digest(found, held.sha256 if held else _UNKNOWN_DIGEST)
        is_previous = hmac.compare_digest(found, held.previous_sha256 if held else _UNKNOWN_DIGEST)
        if held is None or not (is_current or is_previous):
            raise InvalidKey
        if held.disabled:
            raise DisabledKey
        if now >= held.expires or (is_previous and now >= held.previous_expires):
            raise ExpiredKey
        return held.caller


def _held(entry: KeyEntry) -> _Held:
    """Return an entry in the form that lookups compare."""
    return _Held(
        caller=entry.caller(entry.id, entry.name),
        sha256=entry.sha256,
        previous_sha256=entry.previous_sha256 or _UNKNOWN_DIGEST,
        previous_expires=_seconds(entry.previous_expires),
        expires=_seconds(entry.expires),
        disabled=entry.disabled,
    )


def _seconds(instant: datetime | None) -> float:
    """Return an instant in seconds since the epoch; None is infinity."""
    return float("inf") if instant is None else instant.timestamp()
