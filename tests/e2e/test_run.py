"""`make run`: its stops and its refusals."""

import re
import signal
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.e2e.stack import Stack


def test_run_greets_and_stops_in_order() -> None:
    """The printed curl streams as it stands; Ctrl-C stops Envoy, gateway and service in this order, with code 0."""
    stack = Stack()
    try:
        stack.wait_for("Ctrl-C stops everything.")
        (command,) = re.findall(r"^  (curl -N .*)$", stack.output, re.MULTILINE)
        done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=True)  # noqa: S602 what a newcomer pastes
        assert done.stdout.endswith("data: [DONE]\n\n")
        assert done.stdout.count("data: {") > 3
        pids = children(stack)
    finally:
        code = stack.stop()
    assert code == 0, stack.output
    assert list(pids) == ["service", "gateway", "envoy"]
    assert not [pid for pid in pids.values() if Path(f"/proc/{pid}").exists()]


def children(stack: Stack) -> dict[str, int]:
    """Name to process id of the run's three children."""
    pids = Path(f"/proc/{stack.process.pid}/task/{stack.process.pid}/children").read_text().split()
    names = {}
    for pid in pids:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        names["envoy" if words[0].endswith("envoy") or "envoy" in words[1] else words[2]] = int(pid)
    return names


@pytest.mark.parametrize("name", ["service", "gateway", "envoy"])
def test_run_ends_when_a_process_dies(name: str) -> None:
    """Whichever dies, one line names it, the others are stopped, and the code is not zero."""
    stack = Stack()
    try:
        stack.wait_for("sluice is ready.")
        pids = children(stack)
        subprocess.run(["kill", "-KILL", str(pids[name])], check=True)
        assert stack.wait() == 1
    finally:
        stack.stop()
    assert f"run: {name} exited with code {-signal.SIGKILL}" in stack.output
    assert not [pid for pid in pids.values() if Path(f"/proc/{pid}").exists()]


def test_run_refuses_a_port_in_use(stack: Stack) -> None:
    """A taken port is one line with its number and its setting; nothing is started."""
    second = Stack(ports=stack.ports)
    assert second.wait() == 1
    assert second.output.count("\n") == 1
    assert re.search(r"run: cannot listen on 127\.0\.0\.1:\d+ .*SLUICE_\w+_PORT", second.output)
    assert httpx.get(f"{stack.door}/readyz").status_code == 200


def test_run_refuses_a_missing_folder(tmp_path: Path) -> None:
    """A model folder without a model is one line with its path."""
    stack = Stack(f"--model=other={tmp_path / 'nowhere'}")
    assert stack.wait() == 1
    assert stack.output.startswith(f"run: model other: {tmp_path / 'nowhere'} has no config.json; ")
    assert stack.output.count("\n") == 1


def test_run_refuses_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """Where the endpoints' file can't be is one line with its path."""
    (tmp_path / "file").touch()
    stack = Stack(endpoints_file=tmp_path / "file" / "endpoints.json")
    assert stack.wait() == 1
    assert stack.output == f"run: endpoints_file {tmp_path / 'file' / 'endpoints.json'}: File exists\n"


def test_run_refuses_a_bad_setting() -> None:
    """A value that is no port is one line with the setting's name, and code 2."""
    stack = Stack("--gateway-port=99999")
    assert stack.wait() == 2
    assert "gateway_port" in stack.output
