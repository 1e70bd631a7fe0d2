"""Both processes reject unknown names in every source, and accept those of the whole product."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import GUARD_S

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
BARE = {name: value for name, value in os.environ.items() if not name.upper().startswith("SLUICE_")}
FAMILY = {
    "SLUICE_ENVOY_PORT": "8080",
    "SLUICE_ENVOY_ADMIN_PORT": "9901",
    "SLUICE_ENDPOINTS_FILE": "/nowhere/endpoints.json",
    "SLUICE_GATEWAY_TARGET": "127.0.0.1:1",
    "SLUICE_SERVICE_ENGINE__WATERMARK__GAMMA": "0.5",
    "SLUICE_SERVICE_MODEL__mine": "/nowhere",
}


def rejection(process: str, *arguments: str, **variables: str) -> str:
    """Return what a process that ends with code 2 has written on standard error."""
    ended = subprocess.run(
        [sys.executable, "-m", process, *arguments],
        cwd=ROOT,
        env=BARE | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'generated'}"} | variables,
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
    )
    assert ended.returncode == 2, ended.stderr
    return ended.stderr.removesuffix("\n")


@pytest.mark.parametrize("process", ["service", "gateway"])
@pytest.mark.parametrize("name", ["SLUICE_{}_NOPE", "SLUICE_{}_ENGINE__NOPE", "SLUICE_SERVCE_PORT"])
def test_unknown_variable_stops_the_start(process: str, name: str) -> None:
    """A variable with the process's prefix, nested or not, or without a known prefix is rejected."""
    variable = name.format(process.upper())
    assert rejection(process, **{variable: "1"}).startswith(f"sluice-{process}: {variable}: unknown variable")


@pytest.mark.parametrize("process", ["service", "gateway"])
def test_variables_of_the_whole_product_are_accepted(process: str) -> None:
    """Variables of the other processes are accepted, and only the invalid flag is reported."""
    assert rejection(process, "--port=many", **FAMILY).startswith(f"sluice-{process}: port: ")


@pytest.mark.parametrize("process", ["service", "gateway"])
def test_unknown_flag_and_unknown_key_stop_the_start(process: str, tmp_path: Path) -> None:
    """The line begins with the flag, or with the key's path."""
    assert rejection(process, "--prot=1") == f"sluice-{process}: --prot: unknown flag; did you mean --port?"
    file = tmp_path / "settings.yaml"
    file.write_text("prot: 1")
    line = rejection(process, f"--config={file}")
    assert line == f"sluice-{process}: prot: unknown setting; did you mean port?"


@pytest.mark.parametrize("process", ["service", "gateway", "runner"])
def test_failed_start_prints_one_line_per_problem(process: str) -> None:
    """All lines of the output are problems, including the last."""
    program = {"runner": "run"}.get(process, f"sluice-{process}")
    port, delay = ("gateway-port", "drain-time-s") if process == "runner" else ("port", "drain-delay-s")
    lines = rejection(process, f"--{port}=many", f"--{delay}=-1").splitlines()
    assert sorted(line.split(": ")[:2] for line in lines) == sorted(
        [program, name.replace("-", "_")] for name in (port, delay)
    )
