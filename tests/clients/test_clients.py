"""Existing SDKs work unchanged except for their base URL; each is tested in a separate environment."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.clients import listing
from tests.e2e.stack import ROOT, Stack, free_ports, started
from tests.waiting import GUARD_S

HERE = Path(__file__).parent
CHECKS = HERE / "checks"
LARGE = {path.stem for path in (HERE / "requirements" / "large").glob("*.txt")}
ENVIRONMENTS = {"lm_eval": "benchmarks"}  # of files that share another file's environment
EXACT = {"lm_eval"}  # files that compare with the model in float32, and need a server that computes in it
LARGE_TIMEOUT_S = 900


def environment(file: str) -> str:
    """Return the environment of a file's checks."""
    return ENVIRONMENTS.get(Path(file).stem, Path(file).stem)


def file_of(path: Path) -> str:
    """Return the path of a file of checks within their folder."""
    return path.relative_to(CHECKS).as_posix()


def checks() -> list[tuple[str, str]]:
    """Return (file, check) of all files, read without importing, since this environment lacks their packages."""
    found: list[tuple[str, str]] = []
    for path in sorted(CHECKS.rglob("*.py")):
        names = [node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
        found += [(file_of(path), name) for name in names if name.startswith("check_")]
    for path in sorted(CHECKS.rglob("*.mjs")):
        found += [
            (file_of(path), name) for name in re.findall(r"^  async (check_\w+)\(", path.read_text(), re.MULTILINE)
        ]
    return found


@pytest.fixture(scope="module")
def gateway_without_service() -> Iterator[str]:
    """The base URL of a gateway without a service."""
    port, nobody = free_ports(2)
    command = [sys.executable, "-m", "gateway", f"--port={port}", f"--target=127.0.0.1:{nobody}"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        url = f"http://127.0.0.1:{port}"
        with httpx.Client(transport=httpx.HTTPTransport(retries=100)) as client:
            assert client.get(f"{url}/healthz", timeout=GUARD_S).status_code == 200
        yield url
        process.terminate()


def cases() -> list[Any]:
    """Return the checks as parameters, with a mark for those of large environments."""
    marks = [pytest.mark.large, pytest.mark.timeout(LARGE_TIMEOUT_S + 100)]
    return [
        pytest.param(file, check, marks=marks if environment(file) in LARGE and file.endswith(".py") else ())
        for file, check in checks()
    ]


@pytest.fixture(scope="module")
def exact_stack() -> Iterator[Stack]:
    """A whole product that computes in float32."""
    with started(environment={"SLUICE_SERVICE_DTYPE": "float32"}) as stack:
        yield stack


@pytest.fixture(scope="module")
def results() -> dict[str, dict[str, str | None]]:
    """The results of each file's checks, filled by the first test of the file."""
    return {}


def run(file: str, url: str, unavailable_url: str) -> dict[str, str | None]:
    """Run all checks of one file and return their results."""
    if file.endswith(".mjs"):
        command = ["node", str(CHECKS / file), str(ROOT / ".cache/npm/node_modules"), url, unavailable_url]
    else:
        python = ROOT / ".venvs" / environment(file) / "bin" / "python"
        command = [str(python), str(HERE / "run_checks.py"), str(CHECKS / file), url, unavailable_url]
    timeout_s = LARGE_TIMEOUT_S if environment(file) in LARGE else GUARD_S
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, done.stderr
    result: dict[str, str | None] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.parametrize(("file", "check"), cases())
def test_client(
    file: str,
    check: str,
    gateway_without_service: str,
    results: dict[str, dict[str, str | None]],
    request: pytest.FixtureRequest,
) -> None:
    """The client's own call works as its documentation promises."""
    if file not in results:
        server: Stack = request.getfixturevalue("exact_stack" if Path(file).stem in EXACT else "stack")
        results[file] = run(file, server.url, gateway_without_service)
    assert results[file][check] is None, results[file][check]


def test_documented_list_of_clients_is_up_to_date() -> None:
    """Every file of checks has its row in docs/api/clients.md, with the pinned versions."""
    assert {file_of(path) for path in CHECKS.rglob("*") if path.suffix in {".py", ".mjs"}} == set(listing.PACKAGES)
    assert listing.PAGE.read_text() == listing.page()
