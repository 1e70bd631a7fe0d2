"""The documentation's pages before the generator has them: their links, and their places in the navigation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.docs import docs_site
from tools.docs.docs_site import DOCS, ROOT, SiteError, complete, pages, turned

PLACES = pages() | {ROOT / "README.md": "index.md"}


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page of a project of its own: docs/page.md, beside the readme of a part and a source file."""
    monkeypatch.setattr(docs_site, "ROOT", tmp_path)
    for name in ("docs/page.md", "docs/other.md", "part/README.md", "part/source.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("# A page\n")
    return tmp_path / "docs" / "page.md"


def turned_text(page: Path, text: str, place: str = "page.md") -> str:
    """The text of that page as the site has it at `place`."""
    page.write_text(text)
    root = page.parent.parent
    return turned(page, place, {root / "docs" / "other.md": "other.md", root / "part" / "README.md": "parts/one.md"})


def test_links_lead_to_where_pages_lie_in_the_site(page: Path) -> None:
    """Other places than in the checkout, with their anchors; what is no page keeps its words only."""
    assert turned_text(page, "[a](../part/README.md#x) [b](other.md)") == "[a](parts/one.md#x) [b](other.md)"
    assert turned_text(page, "[a](other.md)", "deep/page.md") == "[a](../other.md)"
    assert turned_text(page, "see [`source`](../part/source.py)") == "see `source`"


def test_what_is_no_link_stays(page: Path) -> None:
    """Code, other hosts, and anchors of the page itself."""
    for text in ("```sh\n[a](nothing.md)\n```\n", "[a](https://example.com/a.md)", "[a](#here)"):
        assert turned_text(page, text) == text


def test_a_broken_link_is_an_error(page: Path) -> None:
    """By page and link."""
    with pytest.raises(SiteError, match=r"docs/page\.md: the link target nothing\.md does not exist"):
        turned_text(page, "[a](nothing.md)")


def test_each_page_has_one_place() -> None:
    """No two pages share one, and the project's own are in it."""
    assert len(set(pages().values())) == len(pages())
    assert {PLACES[DOCS / "index.md"], PLACES[ROOT / "CONTRIBUTING.md"]} == {"index.md", "contributing.md"}


def test_navigation_picks_up_what_has_no_place(tmp_path: Path) -> None:
    """A folder's pages stand where it says, new ones last, and a page that is named must be there."""
    for name in ("a.md", "b.md", "new.md", "alerts/index.md", "alerts/x.md", "alerts/y.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("# A page\n")
    found = complete({"First": ["b", "a"], "Alerts": ["alerts/index", "alerts/*"]}, tmp_path)
    assert found == {"First": ["b", "a"], "Alerts": ["alerts/index", "alerts/x", "alerts/y"], "More": ["new"]}
    with pytest.raises(SiteError, match="lost"):
        complete({"First": ["lost"]}, tmp_path)
