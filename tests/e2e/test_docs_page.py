"""/docs in a real browser: it shows the whole API, and asks nobody but the product."""

import json
import shutil
import subprocess
from typing import Any

import pytest

from gateway.routes.surfaces import OPERATIONS
from tests.e2e.stack import ROOT, Stack


@pytest.fixture(scope="module")
def seen(stack: Stack) -> dict[str, Any]:
    """What the browser saw of the page."""
    browser = shutil.which("chromium-headless-shell")
    assert browser is not None, "make test installs it"
    command = ["node", "tests/e2e/read_page.mjs", f"{stack.door}/docs", browser, str(ROOT / ".cache/npm/node_modules")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_page_shows_every_operation(seen: dict[str, Any]) -> None:
    """All operations stand on the page, under the groups of their dialects, and an opened one shows its example."""
    assert sorted(map(tuple, seen["operations"])) == sorted((each.method, each.path) for each in OPERATIONS)
    assert json.loads(seen["example"])["messages"] == [{"role": "user", "content": "Hello!"}]


def test_page_asks_no_other_host(seen: dict[str, Any], stack: Stack) -> None:
    """Everything comes from the front door, all of it is there, and the page's policy stops none of it."""
    loaded = [url for url in seen["requests"] if not url.startswith("data:")]
    assert f"{stack.door}/openapi.json" in loaded
    assert [url for url in loaded if not url.startswith(f"{stack.door}/")] == []
    assert seen["errors"] == []
