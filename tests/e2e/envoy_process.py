"""Envoy alone, with the product's own configuration, in front of upstreams that the test chooses."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import yaml

from runner.proxy.envoy_config import Addresses, connection_manager, envoy_config
from tests.e2e.stack import free_ports
from tests.waiting import GUARD_S


class EnvoyProcess:
    """A real Envoy in a separate process.

    `change` lowers limits of its configuration, so that a test can reach them.
    """

    def __init__(
        self,
        gateway_port: int,
        service_port: int,
        change: Callable[[dict[str, Any]], None] = lambda config: None,
        *,
        healthy: bool = True,
        threads: int = 1,
        **addresses: Any,
    ) -> None:
        self.port, self.admin_port = free_ports(2)
        config = envoy_config(
            Addresses(
                envoy_port=self.port,
                envoy_admin_port=self.admin_port,
                gateway_port=gateway_port,
                service_port=service_port,
                **addresses,
            )
        )
        change(config)
        self._folder = tempfile.TemporaryDirectory(prefix="sluice-envoy-")
        path = Path(self._folder.name) / "envoy.yaml"
        path.write_text(yaml.safe_dump(config))
        with Path(self._folder.name, "log").open("w") as log:
            self.process = subprocess.Popen(
            [Path(sys.executable).with_name("envoy"), "-c", path, "--concurrency", str(threads),
             "--disable-hot-restart", "-l", "warning", "--file-flush-interval-msec", "50"],
            stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            self.until(self._is_live)
            if healthy:
                self.until_healthy("service", "gateway")
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.terminate()
        self.process.wait(GUARD_S)
        self._folder.cleanup()

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def target(self) -> str:
        """The address for gRPC."""
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """The log so far."""
        return Path(self._folder.name, "log").read_text()

    def wait_for_log(self, pattern: str) -> str:
        """Return the first line of the log that matches the pattern."""
        deadline = time.monotonic() + GUARD_S
        while time.monotonic() < deadline:
            for line in self.log.splitlines():
                if re.search(pattern, line):
                    return line
            time.sleep(0.05)
        raise AssertionError(f"{pattern} not in\n{self.log}")

    def stat(self, name: str) -> int:
        """Return a counter or gauge of Envoy, 0 if none has this name."""
        page = httpx.get(
            f"http://127.0.0.1:{self.admin_port}/stats", params={"filter": f"^{re.escape(name)}$"}, timeout=GUARD_S
        ).text
        return int(page.rpartition(": ")[2] or 0)

    def until_healthy(self, *clusters: str) -> None:
        """Return when each cluster has a healthy host."""
        self.until(lambda: all(self.stat(f"cluster.{name}.membership_healthy") for name in clusters))

    def until(self, condition: Callable[[], bool]) -> None:
        """Return when the condition holds."""
        deadline = time.monotonic() + GUARD_S
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log
            try:
                if condition():
                    return
            except httpx.TransportError:
                pass  # Envoy does not listen yet
            time.sleep(0.05)
        raise AssertionError(f"not in {GUARD_S} s\n{self.log}")

    def _is_live(self) -> bool:
        return httpx.get(f"http://127.0.0.1:{self.admin_port}/ready").text == "LIVE\n"


def http_filter(config: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the settings of one HTTP filter."""
    (found,) = (each for each in connection_manager(config)["http_filters"] if each["name"].endswith(f".{name}"))
    settings: dict[str, Any] = found["typed_config"]
    return settings
