"""/docs in a real browser: it opens with something to try, shows the whole API, and says where a key goes."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import httpx
import pytest

from gateway.routes.surfaces import OPERATIONS, SURFACES
from tests.e2e.stack import ROOT, Stack


def seen(stack: Stack, scenario: str) -> Any:
    """What the browser saw while somebody did what the scenario says."""
    browser = shutil.which("chromium-headless-shell")
    assert browser is not None, "make test installs it"
    modules = str(ROOT / ".cache/npm/node_modules")
    command = ["node", "tests/e2e/pages/explorer.mjs", f"{stack.door}/", browser, modules, scenario]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_first_path_is_unfolded(stack: Stack) -> None:
    """With its example, under words on how to try it, on keys and on streams; everything comes from the front door."""
    found = seen(stack, "first")
    assert (found["unfolded"], found["opened"]) == ([SURFACES[0].tag], [SURFACES[0].operations[0].path])
    assert json.loads(found["example"])["messages"] == [{"role": "user", "content": "Hello!"}]
    assert all(word in found["about"] for word in ("Try it out", "Authorize", "text/event-stream"))
    loaded = [url for url in found["asked"] if not url.startswith("data:")]
    assert f"{stack.door}/openapi.json" in loaded
    assert [url for url in loaded if not url.startswith(f"{stack.door}/")] == []
    assert found["errors"] == []


def test_page_shows_every_operation(stack: Stack) -> None:
    """All operations stand on the page, under the groups of their dialects."""
    found = seen(stack, "operations")
    assert sorted(map(tuple, found["operations"])) == sorted((each.method, each.path) for each in OPERATIONS)
    assert found["errors"] == []


def test_a_key_is_asked_for_in_words(stack: Stack) -> None:
    """What is given there is sent with the next request, and kept in no store of the browser's."""
    found = seen(stack, "key")
    for sent_as in ("authorization: Bearer KEY", "api-key: KEY", "x-api-key: KEY"):
        assert sent_as in found["said"]
    assert "sluice keys create" in found["said"]
    assert found["authorization"] == "Bearer sk-sluice-some"
    assert found["stored"] == "{}"


def test_streams_are_shown_as_they_come(stack: Stack) -> None:
    """The example of an event stream, beside its schema."""
    found = seen(stack, "stream")
    assert '"object":"chat.completion.chunk"' in found["shown"]
    assert "data: [DONE]" in found["shown"]
    assert found["errors"] == []


def test_anybody_can_use_it(stack: Stack) -> None:
    """No violation that axe knows, on a desk and on a phone, and what can be pressed can be reached by keys."""
    found = seen(stack, "access")
    assert {name: each for name, each in found["violations"].items() if each} == {}
    assert {"btn authorize unlocked", "opblock-summary-control", "btn try-out__btn"} <= set(found["reached"])


@pytest.mark.parametrize("path", ["/docs", "/page/explorer.js", "/page/swagger-ui.css"])
def test_files_allow_nothing_from_elsewhere(stack: Stack, path: str) -> None:
    """No script and no style within the page, and no frame around it."""
    answer = httpx.get(f"{stack.door}{path}", timeout=60)
    assert answer.status_code == 200
    if path == "/docs":
        assert "'unsafe" not in answer.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
