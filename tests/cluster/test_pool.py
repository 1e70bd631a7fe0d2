"""A pool is kept as deployed, regardless of its replicas' reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cluster.deployment import PoolDeployment
from cluster.load import Load
from cluster.plan import ReplicaPhase
from cluster.pool import ADOPT_S, SETTLE_S, SILENCE_S, PoolKeeper
from cluster.report import Answer, Gone, Report
from runner.proxy.eds import Host

QUICK = {"up_after_s": 0, "down_after_s": 1}


class Nodes:
    """Nodes whose replicas are scripted by the test; a new replica has no report yet."""

    def __init__(self) -> None:
        self.reports: dict[str, Answer | None] = {}
        self.drained: list[str] = []

    def names(self) -> list[str]:
        return list(self.reports)

    def start(self, name: str, revision: str, settings: Mapping[str, Any], resources: Mapping[str, float]) -> None:
        self.reports[name] = None

    def answers(self, names: Sequence[str]) -> dict[str, Answer]:
        return {name: answer for name in names if (answer := self.reports[name]) is not None}

    def drain(self, name: str) -> None:
        self.drained.append(name)

    def end(self, name: str) -> None:
        del self.reports[name]


class Scene:
    """A pool and its observed state."""

    def __init__(self, pool: PoolDeployment, found: Mapping[str, Answer | None] | None = None) -> None:
        self.pool = pool
        self.nodes = Nodes()
        self.nodes.reports.update(found or {})
        self.published: list[list[Host]] = []
        self.lines: list[str] = []
        self.keeper = PoolKeeper(pool, self.nodes, self._publish, self.lines.append, list(found or {}))

    def _publish(self, pool: str, hosts: Sequence[Host]) -> None:
        assert pool == self.pool.name
        self.published.append(list(hosts))

    def say(self, name: str, phase: ReplicaPhase, port: int = 1, **others: Any) -> None:
        self.nodes.reports[name] = report(self.pool, phase, port, **others)

    def tick(self, now: float, *, is_called: bool = False) -> list[str]:
        """Run one step and return the replicas after it."""
        self.keeper.tick(now, is_called=is_called)
        return self.keeper.names


def report(pool: PoolDeployment, phase: ReplicaPhase, port: int = 1, **others: Any) -> Report:
    return Report(pool.fingerprint, phase, Host("10.0.0.1", port), Load(), **others)


def test_envoy_routes_only_to_serving_replicas() -> None:
    """Envoy has no starting replica; a lost replica is removed and replaced."""
    scene = Scene(PoolDeployment())
    (first,) = scene.tick(0)
    scene.say(first, ReplicaPhase.STARTING)
    scene.tick(1)
    assert scene.published == [[]]
    scene.say(first, ReplicaPhase.SERVING, 7)
    scene.tick(2)
    scene.nodes.reports[first] = Gone("its node died")
    (second,) = scene.tick(3)
    assert second != first
    assert scene.published == [[], [Host("10.0.0.1", 7)], []]
    assert f"service: {first} is lost: its node died" in scene.lines


def test_silent_replicas_are_replaced() -> None:
    """A silent replica is replaced, but not one that waits for a node."""
    scene = Scene(PoolDeployment())
    (first,) = scene.tick(0)
    assert scene.tick(10_000) == [first]
    scene.say(first, ReplicaPhase.SERVING)
    scene.tick(10_001)
    scene.nodes.reports[first] = None
    assert scene.tick(10_001 + SILENCE_S) == [first]
    assert first not in scene.tick(10_002 + SILENCE_S)


def test_failing_starts_are_retried_with_growing_delays() -> None:
    """Retries are after 1 s, 2 s and 4 s, and the problem is reported."""
    scene = Scene(PoolDeployment())
    now = 0.0
    for delay_s in (1, 2, 4):
        (name,) = scene.tick(now)
        scene.say(name, ReplicaPhase.FAILED, problem="exited with code 2: no such model")
        assert scene.tick(now) == []
        assert scene.tick(now + delay_s - 0.1) == []
        now += delay_s
        assert f"service: {name} is lost: exited with code 2: no such model" in scene.lines
    assert len(scene.tick(now)) == 1


def test_replicas_that_do_not_serve_in_time_are_replaced() -> None:
    """The time limit starts when the replica has a node."""
    scene = Scene(PoolDeployment(start_timeout_s=5))
    (name,) = scene.tick(0)
    scene.say(name, ReplicaPhase.STARTING)
    scene.tick(100)
    assert scene.tick(105) == [name]
    assert scene.tick(106) == []
    assert "start_timeout_s, 5 s" in scene.lines[-1]


def test_running_replicas_are_taken_over() -> None:
    """No running replica is removed from Envoy or drained before it has reported its address."""
    pool = PoolDeployment(min_replicas=2, max_replicas=2)
    scene = Scene(pool, {"service/a": report(pool, ReplicaPhase.SERVING, 1), "service/b": None})
    scene.keeper.tick(0, is_called=False)
    scene.keeper.drain_all(1)
    assert (scene.published, scene.nodes.drained) == ([], [])
    scene.say("service/b", ReplicaPhase.SERVING, 2)
    assert scene.tick(2) == ["service/a", "service/b"]
    assert scene.published == [[Host("10.0.0.1", 1), Host("10.0.0.1", 2)]]


def test_silent_running_replicas_are_replaced() -> None:
    """A running replica that never reports is replaced in the end."""
    pool = PoolDeployment()
    scene = Scene(pool, {"service/a": None})
    assert scene.tick(0) == ["service/a"]
    assert scene.tick(ADOPT_S) != ["service/a"]


def test_draining_replicas_are_first_removed_from_envoy() -> None:
    """The successor serves by then, and a draining replica is removed when it has ended."""
    old = PoolDeployment()
    scene = Scene(old, {"service/a": report(old, ReplicaPhase.SERVING, 1)})
    scene.tick(0)
    scene.pool = PoolDeployment(revision="2")
    scene.keeper.take(scene.pool)
    _, new = scene.tick(1)
    scene.say(new, ReplicaPhase.SERVING, 2)
    scene.tick(2)
    assert scene.nodes.drained == []
    scene.tick(2 + SETTLE_S)
    assert scene.nodes.drained == ["service/a"]
    assert scene.published[-1] == [Host("10.0.0.1", 2)]
    scene.nodes.reports["service/a"] = report(old, ReplicaPhase.ENDED, 1)
    assert scene.tick(3 + SETTLE_S) == [new]


def test_call_to_an_empty_pool_starts_a_replica() -> None:
    """A call fills an empty pool, and a lack of calls empties it."""
    scene = Scene(PoolDeployment.model_validate({"min_replicas": 0, "scaling": QUICK}))
    assert scene.tick(0) == []
    (name,) = scene.tick(1, is_called=True)
    scene.say(name, ReplicaPhase.SERVING)
    scene.tick(2)
    scene.tick(3)
    assert scene.nodes.drained == [name]
    assert scene.published == [[], [Host("10.0.0.1", 1)], []]
