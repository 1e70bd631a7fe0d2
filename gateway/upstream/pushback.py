"""Reject without asking: after the service has rejected for lack of capacity, few more such calls are sent.

A refusal by the service costs it, and the way there, more than many tokens of those who are served, and each waits for
its turn before it is read at all. So the gateway asks for a caller and a model no more than twice as many as were let
in lately, and a few to find out, and answers the others itself with the service's own words. This is the adaptive
throttling of clients in Google's "Site Reliability Engineering" (2016), chapter 21, with a bucket instead of chances.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from gateway.dialects.seam.failure import Failure, Reason

_ASKED_A_BEGINNING: Final = 2.0  # calls that are asked for each that was let in
_ASKED_A_SECOND: Final = 20.0  # in any case
_MOST_AT_ONCE: Final = 32  # as long as the last refusal is remembered
_MEMORY_S: Final = 2.0  # after the service's last refusal all are asked again
_MOST_REMEMBERED: Final = 1000  # callers and models; without keys anybody may call himself as many as he likes

Who = tuple[str, str]  # a caller's credential, and the model that is asked for


@dataclass(slots=True)
class _Crowd:
    """One caller's calls of one model, of which the service has refused some."""

    refusal: Failure
    refused_at: float
    filled_at: float
    to_ask: float = _MOST_AT_ONCE


class Asked:
    """One call on its way to the service."""

    def __init__(self, begin: Callable[[], None]) -> None:
        self._begin = begin
        self._has_begun = False

    def begin(self) -> None:
        """The service has let it in."""
        if not self._has_begun:
            self._has_begun = True
            self._begin()


class Pushback:
    """Of one gateway. Used by one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._crowds: dict[Who, _Crowd] = {}  # in the order of their last refusals

    def __len__(self) -> int:
        """For how many callers and models refusals are remembered."""
        return len(self._crowds)

    @contextmanager
    def asking(self, who: Who) -> Iterator[Asked]:
        """Around a call: raises the last refusal again if the call isn't worth asking, and learns from how it ends.

        It learns of refusals only that hold for all of the caller's requests for the model: another may have room, or
        wait, where one that is large or in a hurry can't.
        """
        self._ask(who)
        asked = Asked(lambda: self._let_in(who))
        try:
            yield asked
        except Failure as failure:
            if failure.reason is Reason.QUEUE_FULL and failure.values.get("for_all") == "true":
                self._note(who, failure.reworded({}))  # a copy: the traceback keeps the request
            raise
        asked.begin()

    def _ask(self, who: Who) -> None:
        now = self._clock()
        self._forget(now)
        crowd = self._crowds.get(who)
        if crowd is None:
            return
        crowd.to_ask = min(crowd.to_ask + _ASKED_A_SECOND * (now - crowd.filled_at), _MOST_AT_ONCE)
        crowd.filled_at = now
        if crowd.to_ask < 1:
            raise crowd.refusal.reworded({})  # a copy: what is told is marked with the request's id
        crowd.to_ask -= 1

    def _let_in(self, who: Who) -> None:
        if (crowd := self._crowds.get(who)) is not None:
            crowd.to_ask = min(crowd.to_ask + _ASKED_A_BEGINNING, _MOST_AT_ONCE)

    def _note(self, who: Who, refusal: Failure) -> None:
        now = self._clock()
        crowd = self._crowds.pop(who, None) or _Crowd(refusal, now, now)
        crowd.refusal, crowd.refused_at = refusal, now
        self._crowds[who] = crowd
        self._forget(now)

    def _forget(self, now: float) -> None:
        while self._crowds:
            oldest = next(iter(self._crowds))
            if len(self) <= _MOST_REMEMBERED and now - self._crowds[oldest].refused_at <= _MEMORY_S:
                return
            del self._crowds[oldest]
