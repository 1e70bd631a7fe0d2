"""The project's pages in Markdown: their headings, links and code blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.docs.docs_site import ROOT, pages

PAGES: Final = sorted({ROOT / "README.md", *pages()})

_FENCE: Final = re.compile(r"^( *)```(\S*)[^\n]*\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
_LINK: Final = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE: Final = re.compile(r"`+[^`\n]+`+")


def name(path: Path) -> str:
    """Return the page's path relative to the repository."""
    return path.relative_to(ROOT).as_posix()


def prose(path: Path) -> str:
    """Return the text without code blocks."""
    return _FENCE.sub("", path.read_text())


def links(path: Path) -> Iterator[str]:
    """Yield the targets of the page's links."""
    yield from _LINK.findall(_CODE.sub("code", prose(path)))


def anchors(path: Path) -> set[str]:
    """Return the page's anchors, as GitHub makes them from headings; a repeated heading gets -1."""
    found: list[str] = []
    for heading in re.findall(r"^#{1,6} +(.+?) *$", prose(path), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        found.append(re.sub(r"[^\w\- ]", "", text).replace(" ", "-"))
    return {each if (again := found[:at].count(each)) == 0 else f"{each}-{again}" for at, each in enumerate(found)}


def blocks(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (language, code) of each block, without its indentation."""
    for indent, language, code in _FENCE.findall(path.read_text()):
        yield language, "".join(line.removeprefix(indent) for line in code.splitlines(keepends=True))
