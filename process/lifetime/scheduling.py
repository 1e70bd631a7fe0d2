"""The scheduling policy of a process whose threads must not interrupt computation.

The threads that compute a step wait for each other many times in it. Whoever wakes for an event and takes one of them
its core makes all of them wait, and some hundred microseconds later would have found one free. Linux has a policy for
those who wake without interrupting others, and get the same share of the cores: `SCHED_BATCH`. Threads and processes
inherit it from whoever starts them.
"""

from __future__ import annotations

import contextlib
import os


def let_others_finish() -> None:
    """Let this thread, and what it starts, interrupt nobody when it wakes."""
    _change("SCHED_OTHER", "SCHED_BATCH")


def interrupt_others() -> None:
    """Take that back, for a thread that computes, and what it starts."""
    _change("SCHED_BATCH", "SCHED_OTHER")


def _change(before: str, after: str) -> None:
    """Another policy was somebody's choice and stays; some systems have none, and some let nobody change it."""
    if hasattr(os, after):
        with contextlib.suppress(OSError):
            if os.sched_getscheduler(0) == getattr(os, before):
                os.sched_setscheduler(0, getattr(os, after), os.sched_param(0))
