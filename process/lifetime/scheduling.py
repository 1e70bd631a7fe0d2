"""The scheduling policy of a process whose threads must not interrupt computation.

The threads that compute a step wait for each other many times in it. A thread that wakes for an event and preempts one
of them makes all of them wait, although a core would be free some hundred microseconds later. Linux has a policy for
threads that don't preempt others when they wake, with the same share of the cores: `SCHED_BATCH`. Threads and processes
inherit it from their parent.
"""

from __future__ import annotations

import contextlib
import os


def use_batch_policy() -> None:
    """Let this thread, and those it starts, preempt no others when they wake."""
    _change("SCHED_OTHER", "SCHED_BATCH")


def use_normal_policy() -> None:
    """Undo `use_batch_policy` for a thread that computes and the threads it starts."""
    _change("SCHED_BATCH", "SCHED_OTHER")


def _change(before: str, after: str) -> None:
    """Change the policy if it is `before`, since any other was chosen deliberately.

    Do nothing if the system does not allow the change.
    """
    if hasattr(os, after):
        with contextlib.suppress(OSError):
            if os.sched_getscheduler(0) == getattr(os, before):
                os.sched_setscheduler(0, getattr(os, after), os.sched_param(0))
