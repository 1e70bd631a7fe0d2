"""The controller of a pool: it keeps the needed number of healthy replicas of one revision, and publishes them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from cluster.deployment import PoolDeployment
from cluster.plan import ReplicaPhase, ReplicaStatus, plan
from cluster.report import Answer, Gone, Report
from cluster.scaling import Scaler
from runner.proxy.eds import Host

SETTLE_S: Final = 3.0  # Envoys check a new replica's health every second before they route to it
SILENCE_S: Final = 20.0  # a replica without a report for this time is regarded as lost
ADOPT_S: Final = 10.0  # the time in which replicas of an earlier controller can report
_FIRST_DELAY_S, _LAST_DELAY_S = 1.0, 60.0  # the delay before the replacement of a replica that never served


class ReplicaHost(Protocol):
    """The system on which replicas run."""

    def names(self) -> list[str]:
        """Return the names of all replicas, including those of earlier processes."""

    def start(self, name: str, revision: str, settings: Mapping[str, Any], resources: Mapping[str, float]) -> None:
        """Start a replica as soon as there is capacity."""

    def answers(self, names: Sequence[str]) -> dict[str, Answer]:
        """Return the available answers of replicas."""

    def drain(self, name: str) -> None:
        """Drain a replica."""

    def end(self, name: str) -> None:
        """Kill a replica."""


@dataclass(slots=True)
class _Member:
    """The last known state of a replica."""

    revision: str
    report: Report | None = None
    placed_at: float | None = None  # its first answer
    reported_at: float | None = None
    serves_since: float | None = None
    is_draining: bool = False

    @property
    def phase(self) -> ReplicaPhase:
        if self.is_draining:
            return ReplicaPhase.DRAINING
        return ReplicaPhase.STARTING if self.report is None else self.report.phase


class PoolKeeper:
    """The controller of one pool. The names of its replicas begin with the pool's name and a slash."""

    def __init__(
        self,
        deployment: PoolDeployment,
        replica_host: ReplicaHost,
        publish: Callable[[str, Sequence[Host]], None],
        say: Callable[[str], None],
        found: Sequence[str] = (),
    ) -> None:
        """`publish` writes a pool's hosts for Envoy; `found` are the names of replicas that already run."""
        self._replica_host = replica_host
        self._publish = publish
        self._tell = say
        self._members = {name: _Member("") for name in found}
        self._adopt_until: float | None = None if found else 0.0
        self._hosts: list[Host] | None = None
        self._num_failures, self._next_start_at = 0, 0.0
        self._num_wanted = len(found)
        self.take(deployment)

    def take(self, deployment: PoolDeployment) -> None:
        """Apply a changed deployment."""
        self._deployment = deployment
        self._scaler = Scaler(deployment.scaling, deployment.min_replicas, deployment.max_replicas, self._num_wanted)
        self._num_failures, self._next_start_at = 0, 0.0

    @property
    def names(self) -> list[str]:
        """All replicas, including draining ones."""
        return list(self._members)

    def tick(self, now: float, *, is_called: bool) -> None:
        """Run one control step. With `is_called`, the pool was called while it had no serving replica."""
        if not self._receive(now):
            return
        loads = [it.report.load for it in self._members.values() if it.report and it.phase is ReplicaPhase.SERVING]
        wanted = self._scaler.decide(now, loads, is_called=is_called)
        if wanted != self._num_wanted:
            self._say(f"{wanted} replicas are needed instead of {self._num_wanted}")
            self._num_wanted = wanted
        self._carry_out(now, wanted)

    def drain_all(self, now: float) -> None:
        """Run one step of draining all replicas."""
        if self._receive(now):
            self._carry_out(now, 0)

    def _carry_out(self, now: float, wanted: int) -> None:
        revision = self._deployment.fingerprint
        step = plan(
            [self._status(*each, now) for each in self._members.items()],
            wanted,
            revision,
            surge=self._deployment.surge,
        )
        for name in step.drains:
            self._members[name].is_draining = True
        self._report_to_envoy()
        for name in step.drains:
            self._drain(name)
        if now >= self._next_start_at:
            for _ in range(step.num_starts):
                name = f"{self._deployment.name}/{secrets.token_hex(4)}"
                self._members[name] = _Member(revision)
                self._replica_host.start(name, revision, self._deployment.service_settings, self._deployment.resources)
                self._say(f"{name} starts")

    def _say(self, text: str) -> None:
        self._tell(f"{self._deployment.name}: {text}")

    def _receive(self, now: float) -> bool:
        """Receive reports. Return False while adopted replicas have not reported; until then nothing is changed."""
        if self._adopt_until is None:
            self._adopt_until = now + ADOPT_S
        answers = self._replica_host.answers(self.names)
        for name, member in list(self._members.items()):
            answer = answers.get(name)
            if isinstance(answer, Gone):
                self._lose(name, now, answer.problem)
            elif answer is not None:
                self._on_report(name, member, answer, now)
            elif member.reported_at is not None and now - member.reported_at > SILENCE_S:
                self._lose(name, now, f"no report for {SILENCE_S:g} s")
        if now >= self._adopt_until or all(member.report for member in self._members.values()):
            self._adopt_until = now
        return now >= self._adopt_until

    def _on_report(self, name: str, member: _Member, report: Report, now: float) -> None:
        member.report, member.revision, member.reported_at = report, report.revision, now
        member.placed_at = now if member.placed_at is None else member.placed_at
        if report.phase is ReplicaPhase.ENDED:
            self._say(f"{name} has ended")
            self._forget(name)
        elif report.phase is ReplicaPhase.FAILED:
            self._lose(name, now, report.problem)
        elif report.phase is ReplicaPhase.DRAINING:
            member.is_draining = True
        elif report.phase is ReplicaPhase.SERVING and member.serves_since is None:
            member.serves_since = now
            self._num_failures = 0
            self._say(f"{name} serves at {report.host}")
        elif report.phase is ReplicaPhase.STARTING and now - member.placed_at > self._deployment.start_timeout_s:
            self._lose(name, now, f"did not serve within start_timeout_s, {self._deployment.start_timeout_s:g} s")

    def _lose(self, name: str, now: float, problem: str) -> None:
        """Remove a lost replica. Its replacement starts with a growing delay while none becomes ready."""
        member = self._members[name]
        self._say(f"{name} is lost: {problem}")
        if member.serves_since is None and not member.is_draining:
            self._next_start_at = now + min(_FIRST_DELAY_S * 2**self._num_failures, _LAST_DELAY_S)
            self._num_failures += 1
        self._forget(name)

    def _forget(self, name: str) -> None:
        del self._members[name]
        self._replica_host.end(name)

    def _drain(self, name: str) -> None:
        if self._members[name].report is None:  # it waits for a node, or its process has just started
            self._say(f"{name} is not needed any more")
            self._forget(name)
        else:
            self._say(f"{name} drains")
            self._replica_host.drain(name)

    def _report_to_envoy(self) -> None:
        members = self._members.values()
        hosts = sorted((it.report.host for it in members if it.report and it.phase is ReplicaPhase.SERVING), key=str)
        if hosts != self._hosts:
            self._publish(self._deployment.name, hosts)
            self._hosts = hosts

    @staticmethod
    def _status(name: str, member: _Member, now: float) -> ReplicaStatus:
        is_settled = member.serves_since is not None and now - member.serves_since >= SETTLE_S
        load = member.report.load if member.report else None
        sequences = load.running + load.waiting if load else 0
        return ReplicaStatus(name, member.revision, member.phase, is_settled, sequences)
