"""Scripts that drive a page in a real browser and print what they observe as JSON."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import Any

from tests.e2e.stack import ROOT
from tests.waiting import GUARD_S


def command_of(script: str, url: str, *scenario: str) -> list[str]:
    """Return the command that runs a script of this folder, or one scenario of it, on the page at `url`."""
    browser = shutil.which("chromium-headless-shell")
    assert browser is not None, "make test installs it"
    return ["node", f"tests/e2e/pages/{script}", url, browser, str(ROOT / ".cache/npm/node_modules"), *scenario]


def observations(command: list[str], given: Any = None, **environment: str) -> Any:
    """Run a command, with `given` as JSON on its standard input, and return the observations that it prints."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
