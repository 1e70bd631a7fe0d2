"""The nodes of a Ray cluster, on which replicas run as detached actors."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import ray
import ray.exceptions

from cluster.replica import Replica
from cluster.report import Answer, Gone, Report

_POLL_S: Final = 0.2
_LONGEST: Final = 300  # characters of a Ray error, which may be a page long


class _Actor(Replica):
    """A replica on the node that Ray has selected."""

    def __init__(self, revision: str, settings: Mapping[str, Any]) -> None:
        super().__init__(revision, settings, ray.util.get_node_ip_address())


class Nodes:
    """A Ray cluster. One thread uses it."""

    def __init__(self, address: str, namespace: str) -> None:
        """Connect to the cluster. Raise ConnectionError if that fails."""
        self._namespace = namespace
        ray.init(address=address, namespace=namespace, log_to_driver=False, configure_logging=False)
        self._actors: dict[str, Any] = {}
        self._pending: dict[str, Any] = {}

    def names(self) -> list[str]:
        """Return the names of all replicas, including those of earlier processes."""
        return sorted(ray.util.list_named_actors())

    def start(self, name: str, revision: str, settings: Mapping[str, Any], resources: Mapping[str, float]) -> None:
        """Start a replica on a node with the resources, as soon as there is one."""
        others = {key: amount for key, amount in resources.items() if key not in {"CPU", "GPU", "memory"}}
        actor: Any = ray.remote(_Actor)
        self._actors[name] = actor.options(
            name=name,
            lifetime="detached",
            max_restarts=0,  # a restarted actor would have another address, so a new replica is started instead
            scheduling_strategy="SPREAD",
            num_cpus=resources.get("CPU", 0),
            num_gpus=resources.get("GPU", 0),
            memory=resources.get("memory"),
            resources=others,
        ).remote(revision, dict(settings))

    def answers(self, names: Sequence[str]) -> dict[str, Answer]:
        """Return the available answers of replicas: their reports, or `Gone` for those that have ended."""
        found: dict[str, Answer] = {}
        for name in names:
            if name not in self._pending:
                try:
                    self._pending[name] = self._actor(name).report.remote()
                except ValueError:  # no actor has the name
                    found[name] = Gone("its actor does not exist any more")
        pending = {self._pending[name]: name for name in names if name in self._pending}
        done, _ = ray.wait(list(pending), num_returns=len(pending), timeout=_POLL_S) if pending else ([], [])
        for reference in done:
            name = pending[reference]
            del self._pending[name]
            try:
                report: Report = ray.get(reference)
                found[name] = report
            except ray.exceptions.RayError as error:
                found[name] = Gone(" ".join(str(error).split())[:_LONGEST])
        return found

    def drain(self, name: str) -> None:
        """Drain a replica."""
        self._actor(name).drain.remote()

    def end(self, name: str) -> None:
        """Kill a replica and free its resources."""
        with contextlib.suppress(ValueError):  # the actor does not exist
            ray.kill(self._actor(name), no_restart=True)
        self._actors.pop(name, None)
        self._pending.pop(name, None)

    def close(self) -> None:
        """Disconnect from the cluster; the replicas keep running."""
        ray.shutdown()

    def _actor(self, name: str) -> Any:
        if name not in self._actors:
            self._actors[name] = ray.get_actor(name, namespace=self._namespace)
        return self._actors[name]
