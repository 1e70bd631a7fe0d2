"""The time after which a client should retry an engine that has no capacity."""

from __future__ import annotations

_MIN_RETRY_S = 1.0
_MAX_RETRY_S = 30.0


def retry_after_s(waited_s: float) -> float:
    """Seconds until another try, if the oldest in the queue has waited so long: the next may expect to wait as long."""
    return min(max(waited_s, _MIN_RETRY_S), _MAX_RETRY_S)
