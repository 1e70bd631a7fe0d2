"""Waiting for events in other processes and threads, with a bound on the wait."""

from __future__ import annotations

import time
from collections.abc import Callable

GUARD_S = 240.0  # not a claim: far longer than any event takes, even on one busy core
_PAUSE_S = 0.05


def wait_until(condition: Callable[[], object], failure: Callable[[], object] = lambda: "") -> None:
    """Return when the condition holds.

    `failure` describes the state for the AssertionError that is raised if it doesn't hold for `GUARD_S`.
    """
    deadline = time.monotonic() + GUARD_S
    while not condition():
        assert time.monotonic() < deadline, failure()
        time.sleep(_PAUSE_S)
