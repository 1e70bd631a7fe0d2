"""Quarantine requests that were open when an engine's process died, so that none can kill it again and again."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from service.generation.errors import InvalidRequest

_MAX_QUARANTINED = 4096  # of which the oldest are forgotten


@dataclass(slots=True)
class _Quarantined:
    num_deaths: int
    until: float  # by the clock


class CrashQuarantine:
    """How often the process has died beside a work, as far as anybody can tell: all that was open is under suspicion.

    A work is told by its words, from which all is left out that may change when the same is asked again. One that ends
    well is free of suspicion. Who is under much of it runs beside no other such, so that the last death tells who it
    was, and is refused after that.
    """

    def __init__(
        self, *, max_deaths: int = 3, memory_s: float = 600.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_deaths = max_deaths
        self._memory_s = memory_s
        self._clock = clock
        self._quarantine: OrderedDict[bytes, _Quarantined] = OrderedDict()  # the last noted at the end

    def __bool__(self) -> bool:
        """Whether there are any."""
        while self._quarantine and next(iter(self._quarantine.values())).until <= self._clock():
            self._quarantine.popitem(last=False)
        return bool(self._quarantine)

    def note(self, words: str) -> None:
        """The process died while this work was open."""
        key = _key(words)
        quarantined = self._quarantine.pop(key, None) or _Quarantined(0, 0.0)
        quarantined.num_deaths += 1
        quarantined.until = self._clock() + self._memory_s
        self._quarantine[key] = quarantined
        if len(self._quarantine) > _MAX_QUARANTINED:
            self._quarantine.popitem(last=False)

    def clear(self, words: str) -> None:
        """The work has ended well."""
        self._quarantine.pop(_key(words), None)

    def must_be_alone(self, words: str) -> bool:
        """Whether the work may run beside none for which the same holds."""
        quarantined = self._quarantine.get(_key(words))
        return quarantined is not None and quarantined.num_deaths >= self._max_deaths - 1

    def check(self, words: str, field: str) -> None:
        """Raise InvalidRequest for a work that has ended the process too often."""
        quarantined = self._quarantine.get(_key(words))
        if quarantined is not None and quarantined.num_deaths >= self._max_deaths:
            message = f"the engine has failed {quarantined.num_deaths} times while it computed this request"
            raise InvalidRequest(field, f"{message}, which it takes again in {quarantined.until - self._clock():.0f} s")


def _key(words: str) -> bytes:
    return hashlib.blake2b(words.encode(errors="surrogatepass"), digest_size=16).digest()
