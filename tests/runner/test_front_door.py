"""How Envoy is started for a fleet."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.waiting import GUARD_S


@pytest.mark.parametrize(("threads", "expected"), [("", "1"), ("threads: 3\n", "3")])
def test_envoy_gets_the_threads_of_its_fleet(threads: str, expected: str, tmp_path: Path) -> None:
    """Its default, a thread for each processor, would admit the limit of requests in flight once for each."""
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(f"gateways: ['127.0.0.1:1']\nservices: [{{hosts: ['127.0.0.1:2']}}]\n{threads}")
    assert run("--fleet", str(fleet)).stdout.split()[-2:] == ["--concurrency", expected]


def test_envoy_has_one_thread_without_a_fleet_and_keeps_its_own_number() -> None:
    assert run().stdout.split()[-2:] == ["--concurrency", "1"]
    assert run(command=("echo", "--concurrency", "4")).stdout.split().count("--concurrency") == 1


def test_an_invalid_fleet_is_rejected_in_one_line(tmp_path: Path) -> None:
    failed = run("--fleet", str(tmp_path / "none.yaml"))
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr.splitlines()[-1] == f"front_door: error: {tmp_path}/none.yaml: No such file or directory"


def run(*options: str, command: Sequence[str] = ("echo",)) -> subprocess.CompletedProcess[str]:
    """Run a command as Envoy, and return its end."""
    started = [sys.executable, "-m", "runner.proxy.front_door", "127.0.0.1:3", *options, "--", *command]
    return subprocess.run(started, capture_output=True, text=True, check=False, timeout=GUARD_S)
