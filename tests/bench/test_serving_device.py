"""The commands of the compared servers on a device."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.serving.servers import command_of, installed

FOLDER = Path("weights")


def test_servers_are_started_on_the_device() -> None:
    """This server has slots for all streams, unless a setting sets their number; CPU servers are left out."""
    own = command_of("sluice", FOLDER, 256, "cuda").environment
    assert own == {"SLUICE_SERVICE_DEVICE": "cuda", "SLUICE_SERVICE_ENGINE__MAX_BATCH_SEQUENCES": "256"}
    fewer = command_of("sluice:engine.max_batch_sequences=8", FOLDER, 256, "cuda").environment
    assert fewer["SLUICE_SERVICE_ENGINE__MAX_BATCH_SEQUENCES"] == "8"
    theirs = command_of("transformers", FOLDER, 256, "cuda").arguments
    assert theirs[theirs.index("--device") + 1] == "cuda"
    assert installed("cuda") == ["sluice", "transformers"]


def test_on_a_cpu_nothing_is_set_but_the_device() -> None:
    assert command_of("sluice", FOLDER, 4).environment == {"SLUICE_SERVICE_DEVICE": "cpu"}


@pytest.mark.slow
def test_another_device_is_refused() -> None:
    command = [sys.executable, "-m", "bench.serving", "--device", "abacus"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "invalid choice: 'abacus'" in ended.stderr
