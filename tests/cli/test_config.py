"""`sluice config`: the effective settings of service and gateway, and their sources."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.stack import ROOT
from tests.waiting import GUARD_S


def config(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `sluice config`."""
    return subprocess.run(
        [sys.executable, "-m", "cli", "config", *arguments],
        cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True, timeout=GUARD_S, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_settings_of_the_service_are_shown_with_their_sources(tmp_path: Path) -> None:
    """Flags override variables, which override the file; secrets are hidden whatever their source."""
    file = tmp_path / "service.yaml"
    file.write_text("port: 1\ndrain_delay_s: 9\nengine: {watermark: {key: of-the-file}}\n")
    done = config(
        "--json", "--engine.block-size=32", f"--config={file}",
        SLUICE_SERVICE_PORT="50099", SLUICE_SERVICE_QUOTA__REDIS_URL="redis://:opensesame@127.0.0.1/1",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    found = {each["name"]: (each["value"], each["from"]) for each in json.loads(done.stdout)}
    assert found["engine.block_size"] == (32, "flag --engine.block-size")
    assert found["port"] == (50099, "variable SLUICE_SERVICE_PORT")
    assert found["drain_delay_s"] == (9, f"file {file}")
    assert found["engine.watermark.key"] == ("(hidden)", f"file {file}")
    assert found["quota.redis_url"] == ("(hidden)", "variable SLUICE_SERVICE_QUOTA__REDIS_URL")
    assert found["host"] == ("127.0.0.1", "default")
    assert "opensesame" not in done.stdout


@pytest.mark.slow
def test_settings_of_the_gateway_are_shown_as_a_table() -> None:
    """The table has one line per setting, without the command's own options."""
    done = config("--gateway", "--port", "8123")
    assert ["port", "8123", "flag", "--port"] in [line.split() for line in done.stdout.splitlines()]
    assert ["admin_port", "null", "default"] in [line.split() for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_invalid_settings_are_reported_as_the_service_does() -> None:
    """The error and the exit code are those of the service."""
    done = config("--prot=1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "sluice config: --prot: unknown flag; did you mean --port?\n"
