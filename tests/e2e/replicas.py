"""Services and gateways behind Envoy as in a fleet, each a process that can be stopped and started separately."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from runner.proxy.fleet import Fleet
from runner.proxy.production import production_config
from tests.e2e.stack import ROOT, child_pids, free_ports
from tests.waiting import GUARD_S, wait_until


class Replicas:
    """The processes by name (`service-1`, `gateway-1`, …, `envoy`), until the end of the block.

    The gateways reach the services through Envoy's inner listener. `options` are flags of the services; `change`
    modifies Envoy's configuration. `targets` are services that gateways call directly, without Envoy.
    """

    def __init__(
        self,
        num_services: int = 2,
        num_gateways: int = 2,
        options: Sequence[str] = (),
        change: Callable[[dict[str, Any]], None] = lambda config: None,
        targets: Mapping[str, str] | None = None,
    ) -> None:
        self.services = [f"service-{number + 1}" for number in range(num_services)]
        self.gateways = [f"gateway-{number + 1}" for number in range(num_gateways)]
        self._options = options
        self._change = change
        self._targets = targets or {}
        names = [*self.services, *self.gateways, *(f"{name}-metrics" for name in self.services)]
        names += ["envoy", "inner", "admin", "next-admin"]
        self._ports = dict(zip(names, free_ports(len(names)), strict=True))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def url(self) -> str:
        """The base URL of the public listener."""
        return f"http://127.0.0.1:{self._ports['envoy']}"

    def address(self, name: str) -> str:
        """Return the address of a process; `-metrics` after a service's name gives its metrics page."""
        return f"127.0.0.1:{self._ports[name]}"

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="sluice-replicas-")
        try:
            for name in (*self.services, *self.gateways, "envoy"):
                self.start(name)
            for name in (*self.services, *self.gateways):
                self.until_healthy(name)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        for process in reversed(self._processes.values()):
            process.send_signal(signal.SIGINT)
        for process in self._processes.values():
            try:
                process.wait(GUARD_S)
            finally:
                process.kill()
                process.wait()
        self._folder.cleanup()

    def start(self, name: str) -> None:
        """Start a process without waiting until it is healthy."""
        if name == "envoy":
            self._run(name, self._envoy())
            return
        command = [sys.executable, "-m", name.partition("-")[0], f"--port={self._ports[name]}"]
        if name in self.services:
            command += [f"--metrics-port={self._ports[f'{name}-metrics']}", "--auth.allow-anonymous-changes"]
            command += self._options
        else:
            command += [f"--target={self.address(self._targets.get(name, 'inner'))}"]
        self._run(name, command)

    def stop(self, name: str) -> int:
        """Send SIGTERM to a replica and return its exit code."""
        self._processes[name].send_signal(signal.SIGTERM)
        return self._processes[name].wait(GUARD_S)

    def restart(self, name: str) -> int:
        """Stop a replica, start it again, wait until Envoy routes to it, and return its exit code."""
        code = self.stop(name)
        # Otherwise the state could be that of the previous process.
        wait_until(lambda: self._health().get(self._ports[name]) == {"UNHEALTHY"}, lambda: f"{name} is still healthy")
        self.start(name)
        self.until_healthy(name)
        return code

    def replace_envoy(self) -> int:
        """Start another Envoy on the same ports, stop the previous one, and return its exit code."""
        old = self._processes["envoy"]
        self._ports["admin"], self._ports["next-admin"] = self._ports["next-admin"], self._ports["admin"]
        self.start("envoy")
        for name in (*self.services, *self.gateways):
            self.until_healthy(name)
        old.send_signal(signal.SIGTERM)
        return old.wait(GUARD_S)

    def until_healthy(self, name: str) -> None:
        """Return when Envoy regards a replica as healthy in all of its clusters."""
        wait_until(lambda: self._health().get(self._ports[name]) == {"HEALTHY"}, lambda: f"{name} is not healthy")

    def _run(self, name: str, command: list[str]) -> None:
        with (Path(self._folder.name) / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)

    def pids(self) -> list[int]:
        """Return the ids of all processes, including engines and Envoy itself."""
        own = [process.pid for process in self._processes.values()]
        return [*own, *(child for pid in own for child in child_pids(pid))]

    def num_calls(self) -> Mapping[str, int]:
        """Return the number of requests that Envoy has sent to each replica."""
        found = dict.fromkeys((*self.services, *self.gateways), 0)
        names = {self._ports[name]: name for name in found}
        for port, host in self._hosts():
            found[names[port]] += sum(int(each.get("value", 0)) for each in host["stats"] if each["name"] == "rq_total")
        return found

    def _health(self) -> Mapping[int, set[str]]:
        """Return the health states of each port in Envoy's clusters."""
        found: dict[int, set[str]] = {}
        for port, host in self._hosts():
            found.setdefault(port, set()).add(_health_state(host["health_status"]))
        return found

    def _hosts(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Yield the port and Envoy's status of each replica in each cluster; nothing while Envoy does not listen."""
        try:
            with urllib.request.urlopen(
                f"http://{self.address('admin')}/clusters?format=json", timeout=GUARD_S
            ) as page:
                clusters = json.load(page)["cluster_statuses"]
        except OSError:
            return
        for host in (host for cluster in clusters for host in cluster.get("host_statuses", [])):
            yield host["address"]["socket_address"]["port_value"], host

    def _envoy(self) -> list[str]:
        """Write Envoy's configuration and return the command line of its wrapper."""
        fleet = {
            "listen": self.address("envoy"),
            "inner": self.address("inner"),
            "admin": self.address("admin"),
            "gateways": [self.address(name) for name in self.gateways],
            "services": [{"hosts": [self.address(name) for name in self.services]}],
        }
        path = Path(self._folder.name) / f"envoy-{self._ports['admin']}.yaml"
        config = production_config(Fleet.model_validate(fleet))
        self._change(config)
        path.write_text(yaml.safe_dump(config))
        envoy = [str(Path(sys.executable).with_name("envoy")), "-c", str(path), "--concurrency", "1", "-l", "error"]
        return [
            sys.executable, "-m", "runner.proxy.front_door", self.address("admin"), "--", *envoy,
            "--disable-hot-restart",
        ]  # fmt: skip


def _health_state(status: Mapping[str, Any]) -> str:
    return "UNHEALTHY" if status.get("failed_active_health_check") else str(status.get("eds_health_status"))
