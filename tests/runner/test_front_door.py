"""How Envoy is started for a fleet."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import GUARD_S


@pytest.mark.parametrize(("threads", "expected"), [("", "1"), ("threads: 3\n", "3")])
def test_envoy_gets_the_threads_of_its_fleet(threads: str, expected: str, tmp_path: Path) -> None:
    """Its default, a thread for each processor, would admit the limit of requests in flight once for each."""
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(f"gateways: ['127.0.0.1:1']\nservices: [{{hosts: ['127.0.0.1:2']}}]\n{threads}")
    command = [sys.executable, "-m", "runner.proxy.front_door", "127.0.0.1:3", "--fleet", str(fleet), "--", "echo"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=GUARD_S)
    assert done.stdout.split()[-2:] == ["--concurrency", expected]
