"""`sluice serve --log-format`: what its standard output contains."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.e2e.stack import GENERATOR, Stack
from tests.waiting import GUARD_S

pytestmark = pytest.mark.slow


def served(log_format: str) -> list[str]:
    """Return the output of a run with one request, from start to stop."""
    stack = Stack(GENERATOR, f"--log-format={log_format}")
    try:
        stack.wait_for("sluice is ready.")
        assert httpx.get(f"{stack.url}/v1/models", timeout=GUARD_S).status_code == 200
        stack.wait_for("/v1/models")
    finally:
        assert stack.stop() == 0, stack.output
    return stack.output.splitlines()


def test_json_log_has_one_object_per_line() -> None:
    """Every line of all processes and of the runner is an object with the process, a time and a message."""
    entries = [json.loads(line) for line in served("json")]
    assert {"run", "service", "gateway", "envoy"} == {entry["process"] for entry in entries}
    own = [entry["message"] for entry in entries if entry["process"] == "run"]
    assert own[0].startswith("sluice is ready.")
    assert own[-1].startswith("stopping when the running requests have ended")
    assert {"path", "status"} <= set().union(*(entry for entry in entries if entry["process"] == "gateway"))


def test_text_log_is_used_without_a_terminal() -> None:
    """Lines are short text instead of JSON, without colours, because no terminal shows them."""
    lines = served("text")
    assert any("GET /v1/models  200" in line for line in lines)
    log = lines[: next(index for index, line in enumerate(lines) if "sluice is ready." in line)]
    assert not [line for line in log if '{"' in line]
    assert "\x1b" not in "".join(lines)
