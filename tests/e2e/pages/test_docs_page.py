"""/docs in a real browser: it opens with an example, shows the whole API, and explains keys."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from gateway.routes.dialects.surfaces import OPERATIONS, SURFACES
from tests.e2e.pages.browser import command_of, observations
from tests.e2e.stack import Stack
from tests.waiting import GUARD_S


def seen(stack: Stack, scenario: str) -> Any:
    """Run a scenario in a browser and return its observations."""
    return observations(command_of("explorer.mjs", f"{stack.url}/", scenario))


def test_first_path_is_expanded(stack: Stack) -> None:
    """The first operation shows its example below the introduction, and every file comes from the same host."""
    found = seen(stack, "first")
    assert (found["unfolded"], found["opened"]) == ([SURFACES[0].tag], [SURFACES[0].operations[0].path])
    assert json.loads(found["example"])["messages"] == [{"role": "user", "content": "Hello!"}]
    assert all(word in found["about"] for word in ("Try it out", "Authorize", "text/event-stream"))
    loaded = [url for url in found["asked"] if not url.startswith("data:")]
    assert f"{stack.url}/openapi.json" in loaded
    assert [url for url in loaded if not url.startswith(f"{stack.url}/")] == []
    assert found["errors"] == []


def test_page_shows_every_operation(stack: Stack) -> None:
    """The page lists all operations in the groups of their dialects."""
    found = seen(stack, "operations")
    assert sorted(map(tuple, found["operations"])) == sorted((each.method, each.path) for each in OPERATIONS)
    assert found["errors"] == []


def test_key_dialog_sends_the_key_without_storing_it(stack: Stack) -> None:
    """An entered key is sent with the next request and not stored in the browser."""
    found = seen(stack, "key")
    for sent_as in ("authorization: Bearer KEY", "api-key: KEY", "x-api-key: KEY"):
        assert sent_as in found["said"]
    assert "sluice keys create" in found["said"]
    assert found["authorization"] == "Bearer sk-sluice-some"
    assert found["stored"] == "{}"


def test_streams_have_an_example(stack: Stack) -> None:
    """The response's media type for streams has an example and a schema."""
    found = seen(stack, "stream")
    assert '"object":"chat.completion.chunk"' in found["shown"]
    assert "data: [DONE]" in found["shown"]
    assert found["errors"] == []


@pytest.mark.long
def test_page_is_accessible(stack: Stack) -> None:
    """The page is accessible: axe finds no violation on desktop and phone, and all controls work by keyboard."""
    found = seen(stack, "access")
    assert {name: each for name, each in found["violations"].items() if each} == {}
    assert {"btn authorize unlocked", "opblock-summary-control", "btn try-out__btn"} <= set(found["reached"])


@pytest.mark.parametrize("path", ["/docs", "/page/explorer.js", "/page/swagger-ui.css"])
def test_docs_files_have_a_strict_security_policy(stack: Stack, path: str) -> None:
    """The policy forbids inline scripts, inline styles and framing."""
    answer = httpx.get(f"{stack.url}{path}", timeout=GUARD_S)
    assert answer.status_code == 200
    if path == "/docs":
        assert "'unsafe" not in answer.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
