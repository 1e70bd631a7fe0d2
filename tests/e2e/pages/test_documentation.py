"""The documentation at /docs/ in a real browser: navigation, search and accessibility."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from gateway.page.routes import SITE
from tests.e2e.pages.browser import command_of, observations
from tests.e2e.stack import Stack
from tests.waiting import GUARD_S
from tools.docs.docs_site import pages


@pytest.fixture(autouse=True, scope="module")
def built() -> None:
    """Check that the documentation is built."""
    assert (SITE / "index.html").exists(), "make docs builds it, and make test does that first"


def seen(stack: Stack, scenario: str) -> Any:
    """Run a scenario in a browser and return its observations."""
    return observations(command_of("documentation.mjs", f"{stack.url}/", scenario))


def test_every_page_is_in_the_navigation(stack: Stack) -> None:
    """Every page exists, and opened pages show no error and contact no other host."""
    found = seen(stack, "pages")
    named = {url.removeprefix(f"{stack.url}/docs/") for url in found["pages"]}
    assert {path.replace(".md", ".html") for path in pages().values()} <= named
    assert [url for url in found["pages"] if httpx.get(url, timeout=GUARD_S).status_code != 200] == []
    assert len(found["headings"]) > 5
    assert all(found["headings"].values())
    assert found["errors"] == []
    assert [url for url in found["asked"] if not url.startswith((f"{stack.url}/", "data:"))] == []


def test_search_works_with_the_keyboard_only(stack: Stack) -> None:
    """The search opens by keyboard, and Enter opens a page with the word."""
    found = seen(stack, "search")
    assert "watermark" in found["found"].lower()
    assert found["errors"] == []
    assert [url for url in found["asked"] if not url.startswith((f"{stack.url}/", "data:"))] == []


@pytest.mark.long
def test_pages_are_accessible(stack: Stack) -> None:
    """Pages are accessible.

    Axe finds no violation in light, dark and phone layouts, and none is wider than the screen.
    """
    found = seen(stack, "access")
    assert {name: each for name, each in found["violations"].items() if each} == {}


@pytest.mark.parametrize("path", ["/docs/", "/docs/api/openai.html", "/docs/assets/site.js"])
def test_files_have_a_security_policy_and_are_cached(stack: Stack, path: str) -> None:
    """Files have a strict content security policy, and unchanged ones are not sent again."""
    first = httpx.get(f"{stack.url}{path}", timeout=GUARD_S)
    assert first.status_code == 200
    assert "default-src 'none'; script-src 'self';" in first.headers["content-security-policy"]
    again = httpx.get(f"{stack.url}{path}", headers={"if-none-match": first.headers["etag"]}, timeout=GUARD_S)
    assert (again.status_code, again.content) == (304, b"")


def test_a_missing_page_links_to_the_others(stack: Stack) -> None:
    """A missing page is a 404 page with a link, and no path leads outside the site."""
    for path in ("/docs/nothing.html", "/docs/..%2froutes.py", "/docs/%2e%2e/routes.py"):
        answer = httpx.get(f"{stack.url}{path}", timeout=GUARD_S)
        assert answer.status_code == 404, path
    assert 'href="/docs/"' in httpx.get(f"{stack.url}/docs/nothing.html", timeout=GUARD_S).text


def test_api_explorer_and_documentation_have_separate_paths(stack: Stack) -> None:
    """/docs is the API explorer, as in other servers, and /docs/ the documentation."""
    assert "API" in httpx.get(f"{stack.url}/docs", timeout=GUARD_S).text
    assert "What it is" in httpx.get(f"{stack.url}/docs/", timeout=GUARD_S).text
