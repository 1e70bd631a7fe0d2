"""What was open when an engine's process died, so that nothing can end it again and again."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from service.generation.errors import InvalidRequest

_MAX_SUSPECTS = 4096  # of which the oldest are forgotten


@dataclass(slots=True)
class _Suspect:
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
        self._quarantine: OrderedDict[bytes, _Suspect] = OrderedDict()  # the last noted at the end

    def __bool__(self) -> bool:
        """Whether there are any."""
        while self._quarantine and next(iter(self._quarantine.values())).until <= self._clock():
            self._quarantine.popitem(last=False)
        return bool(self._quarantine)

    def note(self, words: str) -> None:
        """The process died while this work was open."""
        key = _key(words)
        suspect = self._quarantine.pop(key, None) or _Suspect(0, 0.0)
        suspect.num_deaths += 1
        suspect.until = self._clock() + self._memory_s
        self._quarantine[key] = suspect
        if len(self._quarantine) > _MAX_SUSPECTS:
            self._quarantine.popitem(last=False)

    def clear(self, words: str) -> None:
        """The work has ended well."""
        self._quarantine.pop(_key(words), None)

    def must_be_alone(self, words: str) -> bool:
        """Whether the work may run beside none for which the same holds."""
        suspect = self._quarantine.get(_key(words))
        return suspect is not None and suspect.num_deaths >= self._max_deaths - 1

    def check(self, words: str, field: str) -> None:
        """Raise InvalidRequest for a work that has ended the process too often."""
        suspect = self._quarantine.get(_key(words))
        if suspect is not None and suspect.num_deaths >= self._max_deaths:
            message = f"the engine has failed {suspect.num_deaths} times while it computed this request"
            raise InvalidRequest(field, f"{message}, which it takes again in {suspect.until - self._clock():.0f} s")


def _key(words: str) -> bytes:
    return hashlib.blake2b(words.encode(errors="surrogatepass"), digest_size=16).digest()
