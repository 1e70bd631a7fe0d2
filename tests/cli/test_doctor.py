"""`sluice doctor`: it reports what would prevent a start, and starts nothing."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cli.doctor.files import check_certificate
from cli.doctor.finding import Status
from cli.doctor.machine import check_instruction_set
from runner.tls.certificates import make_certificates
from tests.e2e.stack import ROOT, free_ports
from tests.waiting import GUARD_S

PORTS = ("envoy", "envoy-admin", "gateway", "service", "service-metrics")


def doctor(folder: Path, *arguments: str, code: int = 0) -> dict[str, Any]:
    """Return the findings by name."""
    flags = [f"--{name}-port={port}" for name, port in zip(PORTS, free_ports(len(PORTS)), strict=True)]
    flags += ["--endpoints-file", str(folder / "endpoints.json"), "--json"]
    command = [sys.executable, "-m", "cli", "doctor", *flags, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=GUARD_S, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return {each["name"]: each for each in json.loads(done.stdout)}


@pytest.mark.slow
def test_doctor_reports_no_failure_on_a_valid_machine(tmp_path: Path) -> None:
    """Versions, memory, ports and files are checked, and the exit code is 0."""
    found = doctor(tmp_path, f"demo={ROOT / 'demo/model'}")
    assert {each["status"] for each in found.values()} <= {"ok", "warning"}
    assert {"python", "torch", "memory", "envoy_port", "endpoints_file", "envoy", "model demo"} <= set(found)
    assert "GiB available" in found["memory"]["text"]


@pytest.mark.slow
def test_gguf_files_are_found_with_their_sizes(tmp_path: Path) -> None:
    """The parts of a model count together; a missing file is a failure."""
    for number in (1, 2):
        with (tmp_path / f"m-0000{number}-of-00002.gguf").open("wb") as file:
            file.truncate(2**30)  # occupies nothing
    found = doctor(tmp_path, str(tmp_path / "m-00001-of-00002.gguf"), str(tmp_path / "none.GGUF"), code=1)
    assert found["model m"]["status"] == "ok"
    assert found["model none"]["text"] == f"{tmp_path}/none.GGUF: no such file"
    assert "2.0 GiB of weights" in found["memory"]["text"]


@pytest.mark.slow
def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    """A used port, an invalid keys file, a missing model and an unreadable certificate are four failures."""
    keys = tmp_path / "keys.yaml"
    keys.write_text("keys: [{id: a}]")
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = str(used.getsockname()[1])
        arguments = ("--gateway-port", port, "--keys-file", str(keys), "/nowhere", "--certificate", str(keys))
        found = doctor(tmp_path, *arguments, code=1)
    failed = {name for name, each in found.items() if each["status"] == "failed"}
    assert failed == {"gateway_port", "keys_file", "model nowhere", "certificate keys.yaml"}
    assert "--gateway-port" in found["gateway_port"]["text"]
    assert "sha256" in found["keys_file"]["text"]


def test_native_module_of_another_cpu_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module without an instruction set for this CPU is reported with the remedy."""
    (tmp_path / "sluice_native.py").write_text("def instruction_sets(): return []")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = check_instruction_set()
    assert found.status is Status.WARNING
    assert "built for another CPU" in found.text


@pytest.mark.slow
def test_keys_file_readable_by_others_is_a_warning(tmp_path: Path) -> None:
    """A keys file that other users can read is a warning with the remedy."""
    keys = tmp_path / "keys.yaml"
    keys.write_text("keys: []")
    keys.chmod(0o644)
    found = doctor(tmp_path, "--keys-file", str(keys))
    assert found["keys_file"]["status"] == "warning"
    assert f"chmod 600 {keys}" in found["keys_file"]["text"]


@pytest.mark.parametrize(
    ("days", "status", "text"),
    [
        (-1, Status.FAILED, "not valid before"),
        (5, Status.OK, "24 days"),
        (20, Status.WARNING, "9 days"),
        (31, Status.FAILED, "expired on"),
    ],
)
def test_dates_of_certificates_are_checked(tmp_path: Path, days: int, status: Status, text: str) -> None:
    """A certificate that is not yet valid or has expired is a failure; one that ends soon is a warning."""
    make_certificates(tmp_path, ["localhost"], 30)
    found = check_certificate(tmp_path / "server.pem", datetime.now(UTC) + timedelta(days=days))
    assert found.status is status
    assert text in found.text
