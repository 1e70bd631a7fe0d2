"""The documentation's pages before generation: their links, and their entries in the navigation."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.docs import docs_site
from tools.docs.docs_site import DOCS, ROOT, SiteError, complete, pages, rewritten

PLACES = pages() | {ROOT / "README.md": "index.md"}


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page of a temporary project: docs/page.md, with a readme of a part and a source file."""
    monkeypatch.setattr(docs_site, "ROOT", tmp_path)
    for name in ("docs/page.md", "docs/other.md", "part/README.md", "part/source.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("# A page\n")
    return tmp_path / "docs" / "page.md"


def rewritten_text(page: Path, text: str, site_path: str = "page.md") -> str:
    """Return the text of that page at the path `place` of the site."""
    page.write_text(text)
    root = page.parent.parent
    return rewritten(
        page, site_path, {root / "docs" / "other.md": "other.md", root / "part" / "README.md": "parts/one.md"}
    )


def test_links_are_rewritten_for_the_site(page: Path) -> None:
    """Links get the pages' paths in the site and keep their anchors; links to other files become text."""
    assert rewritten_text(page, "[a](../part/README.md#x) [b](other.md)") == "[a](parts/one.md#x) [b](other.md)"
    assert rewritten_text(page, "[a](other.md)", "deep/page.md") == "[a](../other.md)"
    assert rewritten_text(page, "see [`source`](../part/source.py)") == "see `source`"


def test_other_text_is_unchanged(page: Path) -> None:
    """Code, links to other hosts, and anchors of the page itself are unchanged."""
    for text in ("```sh\n[a](nothing.md)\n```\n", "[a](https://example.com/a.md)", "[a](#here)"):
        assert rewritten_text(page, text) == text


def test_a_broken_link_is_an_error(page: Path) -> None:
    """The error names the page and the link."""
    with pytest.raises(SiteError, match=r"docs/page\.md: the link target nothing\.md does not exist"):
        rewritten_text(page, "[a](nothing.md)")


def test_each_page_has_its_own_path() -> None:
    """No two pages share a path in the site, and the project's own pages are among them."""
    assert len(set(pages().values())) == len(pages())
    assert {PLACES[DOCS / "index.md"], PLACES[ROOT / "CONTRIBUTING.md"]} == {"index.md", "contributing.md"}


def test_navigation_includes_unnamed_pages(tmp_path: Path) -> None:
    """A folder's pages are listed at its entry, unnamed pages last, and a missing named page is an error."""
    for name in ("a.md", "b.md", "new.md", "alerts/index.md", "alerts/x.md", "alerts/y.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("# A page\n")
    found = complete({"First": ["b", "a"], "Alerts": ["alerts/index", "alerts/*"]}, tmp_path)
    assert found == {"First": ["b", "a"], "Alerts": ["alerts/index", "alerts/x", "alerts/y"], "More": ["new"]}
    with pytest.raises(SiteError, match="lost"):
        complete({"First": ["lost"]}, tmp_path)


def test_the_site_is_built_without_the_product() -> None:
    """The tool imports the standard library only, and the target installs no package of the product."""
    command = [sys.executable, "-S", "-c", "import tools.docs.docs_site"]
    done = subprocess.run(command, cwd=ROOT, env={}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    recipe = re.search(r"^docs:.*\n\t(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    assert "install.sh docs &&" in recipe[1]
