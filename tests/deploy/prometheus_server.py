"""A real Prometheus with accelerated rules.

It scrapes every second, windows are seconds, alerts have no delay, and no rate is too low.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import yaml

from tests.e2e.stack import free_ports
from tests.waiting import GUARD_S

RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "rules.yaml"


def accelerated(rules: str) -> str:
    """Return the rules with windows of ten seconds, evaluated every second, without delay.

    Any rate of events exceeds its threshold, because the number of events a second depends on the machine's speed. The
    thresholds themselves are tested by promtool.
    """
    rules = re.sub(r"(?m)^( *rate\([^()]*\) >) [\d.]+$", r"\1 0", rules)
    rules = re.sub(r"\[\d+[mh]\]", "[10s]", rules)
    rules = re.sub(r"\bfor: \w+", "for: 0s", rules)
    return re.sub(r"\binterval: \w+", "interval: 1s", rules)


class PrometheusServer:
    """The API of a Prometheus server."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def firing(self) -> set[str]:
        """Return the names of the firing alerts."""
        answer = await self._http.get("/api/v1/alerts")
        return {each["labels"]["alertname"] for each in answer.json()["data"]["alerts"] if each["state"] == "firing"}

    async def is_ready(self) -> bool:
        """Return True if the server answers."""
        try:
            return (await self._http.get("/-/ready")).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False


@asynccontextmanager
async def prometheus(folder: Path, targets: Mapping[str, list[str]]) -> AsyncIterator[PrometheusServer]:
    """Run a server that scrapes `targets`: host:port by job."""
    program = shutil.which("prometheus")
    assert program is not None, "prometheus is missing; install it with: tools/install.sh prometheus"
    (port,) = free_ports(1)
    (folder / "rules.yaml").write_text(accelerated(RULES.read_text()))
    jobs = [{"job_name": job, "static_configs": [{"targets": hosts}]} for job, hosts in targets.items()]
    every = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config = {"global": every, "rule_files": ["rules.yaml"], "scrape_configs": jobs}
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    options = [f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/data"]
    process = subprocess.Popen(  # noqa: ASYNC220  it returns at once
        [program, *options, f"--web.listen-address=127.0.0.1:{port}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
    )
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=GUARD_S) as http:
            server = PrometheusServer(http)
            async with asyncio.timeout(GUARD_S):
                while not await server.is_ready():  # noqa: ASYNC110  it is another process
                    await asyncio.sleep(0.1)
            yield server
    finally:
        process.terminate()
        process.wait(GUARD_S)
