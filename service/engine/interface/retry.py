"""The time after which a client should retry an engine that has no capacity."""

from __future__ import annotations

_MIN_RETRY_S = 1.0
_MAX_RETRY_S = 30.0


def retry_after_s(waited_s: float) -> float:
    """Return the seconds after which to retry. The estimate is the wait of the oldest queued request, within limits."""
    return min(max(waited_s, _MIN_RETRY_S), _MAX_RETRY_S)
