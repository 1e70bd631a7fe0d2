"""The SDKs that callers already have, unchanged but for their base URL, each in an environment of its own."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.e2e.stack import ROOT, Stack, free_ports

HERE = Path(__file__).parent
CHECKS = HERE / "checks"
TIMEOUT_S = 110


def checks() -> list[tuple[str, str]]:
    """(file, check) of all files; read, not run, since this environment lacks what they import."""
    found: list[tuple[str, str]] = []
    for path in sorted(CHECKS.glob("*.py")):
        names = [node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
        found += [(path.name, name) for name in names if name.startswith("check_")]
    for path in sorted(CHECKS.glob("*.mjs")):
        found += [(path.name, name) for name in re.findall(r"^  async (check_\w+)\(", path.read_text(), re.MULTILINE)]
    return found


@pytest.fixture(scope="module")
def lonely_gateway() -> Iterator[str]:
    """The base URL of a gateway whose service is away."""
    port, nobody = free_ports(2)
    command = [sys.executable, "-m", "gateway", f"--port={port}", f"--target=127.0.0.1:{nobody}"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        url = f"http://127.0.0.1:{port}"
        with httpx.Client(transport=httpx.HTTPTransport(retries=100)) as client:
            assert client.get(f"{url}/healthz", timeout=30).status_code == 200
        yield url
        process.terminate()


@pytest.fixture(scope="module")
def results(stack: Stack, lonely_gateway: str) -> dict[str, dict[str, str | None]]:
    """What came of each file's checks, filled by the first test that asks for the file."""
    del stack, lonely_gateway  # they only have to run before
    return {}


def run(file: str, door: str, lonely_url: str) -> dict[str, str | None]:
    """Run all checks of one file."""
    if file.endswith(".mjs"):
        command = ["node", str(CHECKS / file), str(ROOT / ".cache/npm/node_modules"), door, lonely_url]
    else:
        python = ROOT / ".venvs" / file.removesuffix(".py") / "bin" / "python"
        command = [str(python), str(HERE / "run_checks.py"), str(CHECKS / file), door, lonely_url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    result: dict[str, str | None] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.parametrize(("file", "check"), checks())
def test_client(
    file: str, check: str, stack: Stack, lonely_gateway: str, results: dict[str, dict[str, str | None]]
) -> None:
    """The client's own call works, and gives what its documentation promises."""
    if file not in results:
        results[file] = run(file, stack.door, lonely_gateway)
    assert results[file][check] is None, results[file][check]
