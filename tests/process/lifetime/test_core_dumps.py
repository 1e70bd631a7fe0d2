"""A process that has disabled core dumps leaves none when it crashes."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ALLOW = "import os, resource; limit = resource.getrlimit(resource.RLIMIT_CORE)[1]"
ALLOW += "; resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))"
DISABLE = "from process.lifetime.core_dumps import disable_core_dumps; disable_core_dumps()"


def leaves_dump(folder: Path, *statements: str) -> bool:
    """Run statements and abort. Return whether the kernel has dumped the memory."""
    process = subprocess.Popen(
        [sys.executable, "-c", "; ".join((ALLOW, *statements, "os.abort()"))],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    _, status = os.waitpid(process.pid, 0)
    process.returncode = status  # it is gone: nothing else waits for it
    assert os.WTERMSIG(status) == signal.SIGABRT
    return os.WCOREDUMP(status)


def test_crash_leaves_no_dump(tmp_path: Path) -> None:
    assert not leaves_dump(tmp_path, DISABLE)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_CORE)[1] == 0, reason="the system allows no core dumps")
def test_crash_of_a_child_leaves_no_dump(tmp_path: Path) -> None:
    """The limit holds for children, which can't raise it; without it there is a dump."""
    run = f"import subprocess, sys; subprocess.run([sys.executable, '-c', '{ALLOW}; os.abort()'])"
    leaves_dump(tmp_path, DISABLE, run)
    assert list(tmp_path.iterdir()) == []
    if not Path("/proc/sys/kernel/core_pattern").read_text(encoding="ascii").startswith(("|", "/")):
        assert leaves_dump(tmp_path)
