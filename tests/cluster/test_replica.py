"""A replica is a process of the service, whose state is observed from outside."""

from __future__ import annotations

import os
import signal
import time

import pytest

from cluster.plan import ReplicaPhase
from cluster.replica import Replica
from cluster.report import Report
from tests.e2e.stack import ROOT, child_pids
from tests.waiting import GUARD_S

SETTINGS = {"models": [{"name": "demo", "path": str(ROOT / "demo" / "model")}], "drain_delay_s": 0}


def until(replica: Replica, *phases: ReplicaPhase) -> Report:
    """Return the first report of one of these phases."""
    deadline = time.monotonic() + GUARD_S
    while (report := replica.report()).phase not in phases:
        assert time.monotonic() < deadline, report
        time.sleep(0.1)
    return report


@pytest.fixture(autouse=True)
def _product(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let replicas run this checkout's service."""
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'generated'}")


@pytest.mark.slow
def test_replica_serves_and_drains() -> None:
    """A replica starts, serves with an idle engine's load, and ends on request."""
    replica = Replica("1", SETTINGS, "127.0.0.1")
    report = replica.report()
    assert report.phase is ReplicaPhase.STARTING
    report = until(replica, ReplicaPhase.SERVING, ReplicaPhase.FAILED)
    assert (report.phase, report.load.free_cache, report.host.address) == (ReplicaPhase.SERVING, 1.0, "127.0.0.1")
    replica.drain()
    assert replica.report().phase in {ReplicaPhase.DRAINING, ReplicaPhase.ENDED}
    until(replica, ReplicaPhase.ENDED)


@pytest.mark.slow
def test_replica_start_does_not_fork_the_process() -> None:
    """A fork runs gRPC's handlers, which fail in the child while another thread is in a call."""
    forks: list[None] = []
    os.register_at_fork(before=lambda: forks.append(None))
    replica = Replica("1", {"no_setting": 1}, "127.0.0.1")
    assert forks == []
    until(replica, ReplicaPhase.FAILED)


@pytest.mark.slow
def test_replica_failure_is_reported_with_the_services_error() -> None:
    """The report has the service's own error line."""
    replica = Replica("1", {"no_setting": 1}, "127.0.0.1")
    report = until(replica, ReplicaPhase.FAILED)
    assert report.problem.startswith("exited with code 2: sluice-service: ")
    assert "no_setting" in report.problem


@pytest.mark.slow
def test_a_killed_service_is_a_failure() -> None:
    before = set(child_pids(os.getpid()))
    replica = Replica("1", SETTINGS, "127.0.0.1")
    (service,) = set(child_pids(os.getpid())) - before
    until(replica, ReplicaPhase.SERVING)
    os.kill(service, signal.SIGKILL)
    assert until(replica, ReplicaPhase.FAILED).problem.startswith("exited with code -9")
