"""`sluice config`: what service and gateway would be started with, and who said so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.stack import ROOT


def config(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command's end."""
    return subprocess.run(
        [sys.executable, "-m", "cli", "config", *words],
        cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_the_services_settings_have_their_origins(tmp_path: Path) -> None:
    """A flag before a variable before the file; what is secret stays so, wherever it came from."""
    file = tmp_path / "service.yaml"
    file.write_text("port: 1\ndrain_delay_s: 9\nengine: {watermark: {key: of-the-file}}\n")
    done = config(
        "--json", "--engine.block-size=32", f"--config={file}",
        SLUICE_SERVICE_PORT="50099", SLUICE_SERVICE_QUOTA__REDIS_URL="redis://:password@127.0.0.1/1",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    told = {each["name"]: (each["value"], each["from"]) for each in json.loads(done.stdout)}
    assert told["engine.block_size"] == (32, "flag --engine.block-size")
    assert told["port"] == (50099, "variable SLUICE_SERVICE_PORT")
    assert told["drain_delay_s"] == (9, f"file {file}")
    assert told["engine.watermark.key"] == ("(hidden)", f"file {file}")
    assert told["quota.redis_url"] == ("(hidden)", "variable SLUICE_SERVICE_QUOTA__REDIS_URL")
    assert told["host"] == ("127.0.0.1", "default")
    assert "password" not in done.stdout


@pytest.mark.slow
def test_the_gateways_are_a_table_for_people() -> None:
    """A line a setting; the words that are the command's own are no settings."""
    done = config("--gateway", "--port", "8123")
    assert ["port", "8123", "flag", "--port"] in [line.split() for line in done.stdout.splitlines()]
    assert ["admin_port", "null", "default"] in [line.split() for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_bad_settings_are_one_line() -> None:
    """As the service itself would say it, with its exit code."""
    done = config("--prot=1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "sluice config: --prot: unknown flag; did you mean --port?\n"
