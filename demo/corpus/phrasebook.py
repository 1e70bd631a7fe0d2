"""The sentences and word lists of the corpus, read from `phrases/*.toml`.

A phrasing that is seen may hold alternatives, `[Please|Now] say {t}[.|!]`, of which one is written each time. Owns the
reading. Any thread. It does not know who says what: each skill names its file and entry.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "phrases"


@dataclass(frozen=True)
class Phrasings:
    """Ways to say one thing; the `kept` ones, which have no alternatives, appear in the evaluation only."""

    seen: tuple[str, ...]
    kept: tuple[str, ...]

    @classmethod
    def of(cls, entry: dict[str, Any]) -> Phrasings:
        """The phrasings of one entry of a file."""
        return cls(tuple(entry["seen"]), tuple(entry["kept"]))


@cache
def book(name: str) -> dict[str, Any]:
    """All entries of `phrases/NAME.toml`; do not change them."""
    return tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def phrasings(name: str, entry: str) -> Phrasings:
    """The phrasings of `entry` (dots reach into tables) in `phrases/NAME.toml`."""
    found = book(name)
    for key in entry.split("."):
        found = found[key]
    return Phrasings.of(found)


@cache
def all_kept() -> frozenset[str]:
    """Every phrasing that is kept for the evaluation, whatever it says."""
    tables = [book(path.stem) for path in FOLDER.glob("*.toml")]
    found: set[str] = set()
    while tables:
        table = tables.pop()
        found.update(table.get("kept", ()))
        tables += [value for value in table.values() if isinstance(value, dict)]
    return frozenset(found)


def words(name: str) -> tuple[str, ...]:
    """A word list of `phrases/words.toml`."""
    return tuple(str(book("words")[name]).split())
