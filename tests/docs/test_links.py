"""Links of the project's pages have existing targets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, anchors, links, name
from tools.docs.docs_site import ROOT

FOLDERS = (
    "bench", "cli", "conformance", "deploy", "docs", "envoy", "examples", "gateway", "process", "proto", "runner",
    "service", "tests", "tools",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=name)
def test_relative_links_have_targets(page: Path) -> None:
    """Each relative link names an existing file or folder, and after # one of its headings."""
    lost = []
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        there = (page.parent / target).resolve() if target else page
        if not there.exists() or (anchor and anchor not in anchors(there)):
            lost.append(link)
    assert lost == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_named_files_exist(page: Path) -> None:
    """Paths that start with one of the project's folders exist, except those with a placeholder such as NAME."""
    named = re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]*)`", page.read_text())
    assert [each for each in named if not (ROOT / each).exists() and not re.search(r"[A-Z]{4}", each)] == []


def test_first_page_names_every_page() -> None:
    """A page that the first one doesn't name is found by search only. Runbooks have an index of their own."""
    first = ROOT / "docs" / "index.md"
    named = {(first.parent / link.partition("#")[0]).resolve() for link in links(first)}
    pages = {page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "runbooks"} - {first}
    assert sorted(name(page) for page in pages - named) == []
