"""The API matches its OpenAPI description, as checked by schemathesis: responses, errors, and rejected input."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from gateway.routes.dialects.surfaces import OPERATIONS
from tests.e2e.stack import ROOT, Stack, started
from tests.waiting import GUARD_S

PROGRAM = ROOT / ".venvs/schemathesis/bin/schemathesis"
CONFIG = ROOT / "tests/e2e/hostile/schemathesis.toml"
# Paths that share their body's parser with another path, so that each rule of the description is tried once.
TWINS = r"^/models/|^/serving-endpoints/(responses|\{name\})|^/openai/|/versions/|/pt|/generate_stream$"


@pytest.fixture(scope="module")
def short_stack() -> Iterator[Stack]:
    """The product with a store, and a short context, since a valid request may ask for 128 answers up to its end."""
    with started("--store-responses", environment={"SLUICE_SERVICE_ENGINE__MAX_MODEL_LEN": "64"}) as stack:
        yield stack


@pytest.mark.long
@pytest.mark.timeout(0)  # the number of requests is fixed, and each of them has a limit
@pytest.mark.parametrize(
    "options",
    [
        ("--phases=examples,fuzzing", "--max-examples=6"),
        ("--phases=coverage", f"--exclude-path-regex={TWINS}"),
    ],
    ids=["examples and random requests", "each rule kept and broken"],
)
def test_product_matches_its_openapi_document(options: tuple[str, ...], short_stack: Stack) -> None:
    """Every response has a documented status, type and schema, invalid data is rejected, and there is no 5xx.

    The gateway is called directly, because Envoy has its own responses to invalid HTTP, such as an unknown method or an
    underscore in a header's name. There is one worker, because Hypothesis parses Python code, and Python 3.11 cannot do
    so in several threads.
    """
    command = [str(PROGRAM), "--config-file", str(CONFIG), "run", f"{short_stack.gateway}/openapi.json", *options]
    command += ["--seed=1", "--generation-database=none", f"--request-timeout={GUARD_S:.0f}", "--no-color"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8000:]
    if "examples" in options[0]:
        assert f"Tested: {len(OPERATIONS)}\n" in done.stdout
        assert "Skipped:" not in done.stdout
