"""The scheduling policy of threads that compute and of threads that wait for events."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator

import pytest

from process.lifetime.scheduling import use_batch_policy, use_normal_policy


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    policy = os.sched_getscheduler(0)
    yield
    os.sched_setscheduler(0, policy, os.sched_param(0))


def policy_of_new_thread() -> int:
    """Return the policy that a new thread inherits."""
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(os.sched_getscheduler(0)))
    thread.start()
    thread.join()
    return found[0]


def test_threads_inherit_the_policy() -> None:
    """Threads inherit the policy that does not preempt, until they declare that they compute."""
    use_batch_policy()
    assert policy_of_new_thread() == os.SCHED_BATCH
    use_batch_policy()
    use_normal_policy()
    assert policy_of_new_thread() == os.SCHED_OTHER


@pytest.mark.parametrize("change", [use_batch_policy, use_normal_policy])
def test_policy_chosen_for_the_process_is_kept(change: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy that was chosen for the process is not changed."""
    monkeypatch.setattr(os, "sched_getscheduler", lambda _: os.SCHED_IDLE)
    monkeypatch.delattr(os, "sched_setscheduler")
    try:
        change()
    finally:
        monkeypatch.undo()


def test_a_forbidden_change_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some containers do not permit a change of the policy."""

    def reject(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", reject)
    use_batch_policy()
    monkeypatch.undo()
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
