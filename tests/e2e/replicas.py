"""Two services and two gateways behind one Envoy, each a process that can be stopped and started by itself."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from runner.envoy_config import Addresses, envoy_config
from tests.e2e.stack import ROOT, free_ports

NAMES = ("service-1", "service-2", "gateway-1", "gateway-2")


class Replicas:
    """The processes by name, until the end of the block. The gateways reach the services through Envoy, too."""

    def __init__(self) -> None:
        self._ports = dict(zip((*NAMES, "envoy", "admin"), free_ports(len(NAMES) + 2), strict=True))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def door(self) -> str:
        """The front door's base URL."""
        return f"http://127.0.0.1:{self._ports['envoy']}"

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="sluice-replicas-")
        for name in NAMES:
            self.start(name)
        path = Path(self._folder.name) / "envoy.yaml"
        path.write_text(yaml.safe_dump(self._envoy_config()))
        envoy = [str(Path(sys.executable).with_name("envoy")), "-c", str(path), "--concurrency", "1", "-l", "error"]
        admin = f"127.0.0.1:{self._ports['admin']}"
        door = [sys.executable, "-m", "runner.front_door", admin, "--", *envoy, "--disable-hot-restart"]
        self._run("envoy", door)
        for name in NAMES:
            self.until_healthy(name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in reversed(self._processes.values()):
            process.send_signal(signal.SIGINT)
        for process in self._processes.values():
            try:
                process.wait(10)
            finally:
                process.kill()
                process.wait()
        self._folder.cleanup()

    def start(self, name: str) -> None:
        """Start a replica, which takes some time to be healthy."""
        command = [sys.executable, "-m", name.partition("-")[0], f"--port={self._ports[name]}"]
        if name.startswith("service"):
            command += ["--metrics-port=0"]
        else:
            command += [f"--target=127.0.0.1:{self._ports['envoy']}"]
        self._run(name, command)

    def stop(self, name: str) -> int:
        """Send SIGTERM to a replica and return its exit code."""
        self._processes[name].send_signal(signal.SIGTERM)
        return self._processes[name].wait(60)

    def restart(self, name: str) -> int:
        """Stop a replica, start it again, and wait until Envoy sends to it. Its exit code."""
        code = self.stop(name)
        self.start(name)
        self.until_healthy(name)
        return code

    def until_healthy(self, name: str, timeout_s: float = 60) -> None:
        """Return when Envoy finds a replica healthy."""
        deadline = time.monotonic() + timeout_s
        while self._health().get(self._ports[name]) != "HEALTHY":
            assert time.monotonic() < deadline, f"{name} is not healthy"
            time.sleep(0.1)

    def _run(self, name: str, command: list[str]) -> None:
        with (Path(self._folder.name) / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)

    def _health(self) -> Mapping[int, str]:
        """Envoy's opinion of each port."""
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self._ports['admin']}/clusters?format=json", timeout=5
            ) as page:
                clusters = json.load(page)["cluster_statuses"]
        except OSError:
            return {}
        hosts = [host for cluster in clusters for host in cluster.get("host_statuses", [])]
        return {host["address"]["socket_address"]["port_value"]: _opinion(host["health_status"]) for host in hosts}

    def _envoy_config(self) -> dict[str, Any]:
        addresses = Addresses(
            envoy_port=self._ports["envoy"],
            envoy_admin_port=self._ports["admin"],
            gateway_port=self._ports["gateway-1"],
            service_port=self._ports["service-1"],
        )
        config = envoy_config(addresses)
        for cluster in config["static_resources"]["clusters"]:
            address = {"socket_address": {"address": "127.0.0.1", "port_value": self._ports[f"{cluster['name']}-2"]}}
            cluster["load_assignment"]["endpoints"][0]["lb_endpoints"].append({"endpoint": {"address": address}})
        return config


def _opinion(status: Mapping[str, Any]) -> str:
    return "UNHEALTHY" if status.get("failed_active_health_check") else str(status.get("eds_health_status"))
