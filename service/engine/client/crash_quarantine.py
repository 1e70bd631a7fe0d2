"""Quarantine requests that were open when an engine's process died, so that none can crash it again and again."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from service.generation.errors import InvalidRequest

_MAX_QUARANTINED = 4096  # more evict the oldest


@dataclass(slots=True)
class _Quarantined:
    num_deaths: int
    until: float  # by the clock


class CrashQuarantine:
    """Counts the deaths of the process while a request or compilation was open, since each open one may be the cause.

    A request or compilation is identified by its description, which leaves out the fields that may change when a client
    sends it again. It leaves the quarantine when it completes. With `max_deaths` - 1 deaths it may not run together
    with another one that has as many, so that the next death identifies the cause. With `max_deaths` deaths it is
    rejected until `memory_s` seconds have passed.
    """

    def __init__(
        self, *, max_deaths: int = 3, memory_s: float = 600.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_deaths = max_deaths
        self._memory_s = memory_s
        self._clock = clock
        self._quarantine: OrderedDict[bytes, _Quarantined] = OrderedDict()  # the most recent last

    def __bool__(self) -> bool:
        """Return whether anything is quarantined."""
        while self._quarantine and next(iter(self._quarantine.values())).until <= self._clock():
            self._quarantine.popitem(last=False)
        return bool(self._quarantine)

    def record_death(self, description: str) -> None:
        """Count a death of the process while the request or compilation of this description was open."""
        key = _key(description)
        quarantined = self._quarantine.pop(key, None) or _Quarantined(0, 0.0)
        quarantined.num_deaths += 1
        quarantined.until = self._clock() + self._memory_s
        self._quarantine[key] = quarantined
        if len(self._quarantine) > _MAX_QUARANTINED:
            self._quarantine.popitem(last=False)

    def clear(self, description: str) -> None:
        """Remove a request or compilation that has completed."""
        self._quarantine.pop(_key(description), None)

    def must_be_alone(self, description: str) -> bool:
        """Return whether the request or compilation may not run together with another one for which this is True."""
        quarantined = self._quarantine.get(_key(description))
        return quarantined is not None and quarantined.num_deaths >= self._max_deaths - 1

    def check(self, description: str, field: str) -> None:
        """Raise InvalidRequest for a request or compilation that was open at `max_deaths` deaths."""
        quarantined = self._quarantine.get(_key(description))
        if quarantined is not None and quarantined.num_deaths >= self._max_deaths:
            message = f"the engine has failed {quarantined.num_deaths} times while it computed this request"
            raise InvalidRequest(field, f"{message}; retry in {quarantined.until - self._clock():.0f} s")


def _key(description: str) -> bytes:
    return hashlib.blake2b(description.encode(errors="surrogatepass"), digest_size=16).digest()
