"""Adaptive throttling: after the service has rejected calls for lack of capacity, few more such calls are sent to it.

A rejection by the service costs more time than many generated tokens, and each rejected call waits in gRPC's queue
first. So for each caller and model the gateway sends at most twice as many calls as were admitted recently, plus a few
probes, and rejects the others itself with the service's last error. This is the client-side throttling of Google's
"Site Reliability Engineering" (2016), chapter 21, with a token bucket instead of probabilities.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from gateway.dialects.seam.failure import Failure, Reason

_CALLS_PER_ADMISSION: Final = 2.0
_CALLS_PER_SECOND: Final = 20.0  # probes
_MAX_BURST: Final = 32
_MEMORY_S: Final = 2.0  # after the last rejection; then all calls are sent again
_MAX_KEYS: Final = 1000  # keys; without authentication a client may invent any number of credentials

Key = tuple[str, str]  # the credential of the caller, and the name of the model


@dataclass(slots=True)
class _Throttle:
    """The token bucket of one key, with the last rejection by the service."""

    rejection: Failure
    rejected_at: float
    filled_at: float
    tokens: float = _MAX_BURST


class GuardedCall:
    """One call that is sent to the service."""

    def __init__(self, on_admission: Callable[[], None]) -> None:
        self._on_admission = on_admission
        self._is_admitted = False

    def admit(self) -> None:
        """Record that the service has admitted the call."""
        if not self._is_admitted:
            self._is_admitted = True
            self._on_admission()


class Pushback:
    """The throttles of one gateway. Used on one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._throttles: dict[Key, _Throttle] = {}  # in the order of their last rejections

    def __len__(self) -> int:
        """Return the number of keys with a remembered rejection."""
        return len(self._throttles)

    @contextmanager
    def guard(self, key: Key) -> Iterator[GuardedCall]:
        """Wrap a call: raise the last rejection if the key is throttled, else record the outcome of the call.

        Only rejections that hold for all of the key's requests are recorded: a small or patient request may be admitted
        when a large or urgent one is rejected.
        """
        self._take_token(key)
        call = GuardedCall(lambda: self._record_admission(key))
        try:
            yield call
        except Failure as failure:
            if failure.reason is Reason.QUEUE_FULL and failure.values.get("for_all") == "true":
                self._record_rejection(key, failure.with_texts({}))  # a copy: the traceback keeps the request
            raise
        call.admit()

    def _take_token(self, key: Key) -> None:
        """Take a token of a throttled key. Raise its last rejection if there is none."""
        now = self._clock()
        self._forget(now)
        throttle = self._throttles.get(key)
        if throttle is None:
            return
        throttle.tokens = min(throttle.tokens + _CALLS_PER_SECOND * (now - throttle.filled_at), _MAX_BURST)
        throttle.filled_at = now
        if throttle.tokens < 1:
            raise throttle.rejection.with_texts({})  # a copy: it gets the id of the request
        throttle.tokens -= 1

    def _record_admission(self, key: Key) -> None:
        """Give tokens to a throttled key whose call was admitted."""
        if (throttle := self._throttles.get(key)) is not None:
            throttle.tokens = min(throttle.tokens + _CALLS_PER_ADMISSION, _MAX_BURST)

    def _record_rejection(self, key: Key, rejection: Failure) -> None:
        """Throttle a key whose call was rejected."""
        now = self._clock()
        throttle = self._throttles.pop(key, None) or _Throttle(rejection, now, now)
        throttle.rejection, throttle.rejected_at = rejection, now
        self._throttles[key] = throttle
        self._forget(now)

    def _forget(self, now: float) -> None:
        """Remove the oldest throttles, above the limit or past their time."""
        while self._throttles:
            oldest = next(iter(self._throttles))
            if len(self) <= _MAX_KEYS and now - self._throttles[oldest].rejected_at <= _MEMORY_S:
                return
            del self._throttles[oldest]
