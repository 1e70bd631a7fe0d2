"""A Ray cluster of several nodes on this machine, `sluice ray` on it, and Envoy and a gateway before its replicas."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from runner.proxy.eds import Host, read_hosts
from runner.proxy.fleet import Fleet
from runner.proxy.production import production_config
from tests.e2e.stack import ROOT, free_ports
from tests.waiting import GUARD_S, wait_until

_ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": f"{ROOT}:{ROOT / 'generated'}",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # otherwise Ray logs a warning
}
_NODE = {"num_cpus": 2, "object_store_memory": 80 << 20, "include_dashboard": False}


class RayFleet:
    """A context with nodes, Envoy, a gateway, and `sluice ray` on the given pools."""

    def __init__(self, pools: Sequence[Mapping[str, Any]], num_nodes: int = 2) -> None:
        self._pools = [dict(pool) for pool in pools]
        self._num_nodes = num_nodes
        names = ("envoy", "inner", "admin", "gateway")
        self._ports = dict(zip(names, free_ports(len(names)), strict=True))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def url(self) -> str:
        """Envoy's base URL."""
        return f"http://127.0.0.1:{self._ports['envoy']}"

    def __enter__(self) -> Self:
        self._temporary = tempfile.TemporaryDirectory(prefix="sluice-ray-")
        self._folder = Path(self._temporary.name)
        os.environ.update(_ENVIRONMENT)  # inherited by the nodes' workers
        from ray.cluster_utils import Cluster  # noqa: PLC0415  only these tests need Ray

        self.cluster: Any = Cluster(initialize_head=True, head_node_args={**_NODE, "num_cpus": 0})
        self.nodes = [self.cluster.add_node(**_NODE) for _ in range(self._num_nodes)]
        (self._folder / "fleet.yaml").write_text(yaml.safe_dump(self._fleet()))
        self.deploy()
        self.start_keeper()
        self.until((self._folder / "hosts" / "gateway.json").exists)
        envoy = self._folder / "envoy.yaml"
        envoy.write_text(yaml.safe_dump(production_config(Fleet.model_validate(self._fleet()))))
        program = ROOT / ".venv" / "bin" / "envoy"
        self._run("envoy", [program, "-c", envoy, "--concurrency", "1", "-l", "error", "--disable-hot-restart"])
        gateway = [f"--port={self._ports['gateway']}", f"--target=127.0.0.1:{self._ports['inner']}"]
        self._run("gateway", [sys.executable, "-m", "gateway", *gateway])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self._processes):
            self.end(name)
        self.cluster.shutdown()
        if error is not None:
            print(self.output())  # noqa: T201  what pytest shows of a failure
        self._temporary.cleanup()

    def deploy(self, **changes: Any) -> None:
        """Write the deployment, with changes to every pool, replacing the previous one."""
        pools = [{**pool, **changes} for pool in self._pools]
        new = self._folder / "new.yaml"
        new.write_text(yaml.safe_dump({"fleet": "fleet.yaml", "address": self.cluster.address, "pools": pools}))
        new.replace(self._folder / "ray.yaml")

    def start_keeper(self, *options: str) -> None:
        """Start `sluice ray`."""
        self._run("keeper", [sys.executable, "-m", "cluster", self._folder / "ray.yaml", *options])

    def end(self, name: str, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal to a process and return its exit code."""
        process = self._processes.pop(name)
        process.send_signal(number)
        try:
            return process.wait(GUARD_S)
        finally:
            process.kill()
            process.wait()

    def wait(self, name: str) -> int:
        """Wait for a process to end by itself and return its exit code."""
        return self._processes.pop(name).wait(GUARD_S)

    def hosts(self, pool: str = "service") -> list[Host]:
        """Return the hosts of a pool in Envoy's file."""
        return read_hosts(self._folder / "hosts", pool)

    def until(self, holds: Callable[[], bool]) -> None:
        """Return when the condition holds."""
        wait_until(holds, self.output)

    def until_served(self, count: int, pool: str = "service") -> None:
        """Return when Envoy has this number of healthy replicas of a pool, and no others; calls succeed then."""
        self.until(lambda: self._opinions(pool) == ["HEALTHY"] * count)
        self.until(lambda: self.answers("readyz"))  # Envoy's threads are updated later than its admin interface

    def answers(self, path: str = "healthz") -> bool:
        """Return True if Envoy and the gateway answer, and for `readyz` a service, too."""
        try:
            with urllib.request.urlopen(f"{self.url}/{path}", timeout=5):  # noqa: S310  http, through Envoy
                return True
        except OSError:
            return False

    def output(self) -> str:
        """Return the output of `sluice ray`."""
        return (self._folder / "keeper.log").read_text()

    def _opinions(self, pool: str) -> list[str]:
        try:
            url = f"http://127.0.0.1:{self._ports['admin']}/clusters?format=json"
            with urllib.request.urlopen(url, timeout=5) as page:
                clusters = json.load(page)["cluster_statuses"]
        except OSError:
            return []
        hosts = [host for each in clusters if each["name"] == pool for host in each.get("host_statuses", [])]
        return ["UNHEALTHY" if host["health_status"].get("failed_active_health_check") else "HEALTHY" for host in hosts]

    def _fleet(self) -> dict[str, Any]:
        names = [pool["name"] for pool in self._pools]
        return {
            **{name: f"127.0.0.1:{self._ports[port]}" for name, port in (("listen", "envoy"), ("inner", "inner"))},
            "admin": f"127.0.0.1:{self._ports['admin']}",
            "hosts_folder": str(self._folder / "hosts"),
            "gateways": [f"127.0.0.1:{self._ports['gateway']}"],
            "services": [{"name": name, "models": [name] if name != "service" else []} for name in names],
        }

    def _run(self, name: str, command: Sequence[str | Path]) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, env=_ENVIRONMENT)
