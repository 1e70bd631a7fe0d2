"""The control loop over all pools of a deployment."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from cluster.deployment import Deployment, PoolDeployment
from cluster.envoys import Callers, is_called
from cluster.pool import PoolKeeper, ReplicaHost
from runner.proxy.eds import Host, write_hosts
from runner.proxy.fleet import Fleet

TICK_S: Final = 1.0


class Keeper:
    """The controller of all pools of a deployment."""

    def __init__(
        self, deployment: Deployment, fleet: Fleet, replica_host: ReplicaHost, say: Callable[[str], None]
    ) -> None:
        self._folder = deployment.check(fleet)
        self._replica_host = replica_host
        self._say = say
        self._callers = Callers(fleet.admin)
        self._pools: dict[str, PoolKeeper] = {}
        self._leaving: dict[str, PoolKeeper] = {}
        self.take(deployment)
        for name in {
            name.partition("/")[0] for name in replica_host.names()
        } - self._pools.keys():  # of an older deployment
            self._leaving[name] = self._keeper(PoolDeployment(name=name))

    def take(self, deployment: Deployment) -> None:
        """Apply a changed deployment; pools that it does not have are drained."""
        for pool in deployment.pools:
            if pool.name in self._pools:
                self._pools[pool.name].take(pool)
            else:
                self._leaving.pop(pool.name, None)
                self._pools[pool.name] = self._keeper(pool)
        for name in self._pools.keys() - {pool.name for pool in deployment.pools}:
            self._leaving[name] = self._pools.pop(name)

    def tick(self) -> None:
        """Run one control step."""
        called, now = self._callers.called(), time.monotonic()
        for name, pool in self._pools.items():
            pool.tick(now, is_called=is_called(name, called))
        self._drain(now)

    def down(self, stop: threading.Event) -> None:
        """Drain all replicas, until none is left or the event is set."""
        self._leaving.update(self._pools)
        self._pools.clear()
        while self._leaving and not stop.wait(TICK_S):
            self._drain(time.monotonic())

    def _keeper(self, pool: PoolDeployment) -> PoolKeeper:
        found = [name for name in self._replica_host.names() if name.startswith(f"{pool.name}/")]
        return PoolKeeper(pool, self._replica_host, self._publish, self._say, found)

    def _drain(self, now: float) -> None:
        for name, pool in list(self._leaving.items()):
            pool.drain_all(now)
            if not pool.names:
                del self._leaving[name]

    def _publish(self, pool: str, hosts: Sequence[Host]) -> None:
        write_hosts(self._folder, pool, hosts)
