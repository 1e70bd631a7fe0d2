"""A process with too little memory ends with a reason."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from process.lifetime.exit import shortage
from tests.waiting import GUARD_S

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "an allocation failed"),
        (OSError(12, "Cannot allocate memory"), "Cannot allocate memory"),
        (BlockingIOError(11, "Resource temporarily unavailable"), "Resource temporarily unavailable"),
        (RuntimeError("can't start new thread"), "a thread could not be started"),
    ],
)
def test_memory_errors_are_reported_in_one_line(error: Exception, words: str) -> None:
    """The line says that memory is short, and what to do."""
    found = shortage(error)
    assert found is not None
    assert found.startswith(f"not enough memory: {words}; ")


@pytest.mark.parametrize("error", [RuntimeError("no running event loop"), FileNotFoundError(2, "x"), ValueError("x")])
def test_other_errors_are_not_reported_as_memory_errors(error: Exception) -> None:
    assert shortage(error) is None


@pytest.mark.slow
@pytest.mark.parametrize("mib", [500, 700, 900])
def test_service_without_address_space_exits_with_a_reason(mib: int) -> None:
    """The service ends with code 1 and one line, where libraries would abort it."""
    command = f"ulimit -v {mib * 1024}; exec {sys.executable} -m service --port 0 --metrics-port 0"
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=GUARD_S, check=False
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr == (
        f"sluice-service: not enough memory: ulimit -v is {mib} MiB, and at least 1024 MiB are needed\n"
    )
