"""The sentences and word lists of the corpus, read from `phrases/*.toml`.

A phrasing for training may have alternatives, `[Please|Now] say {t}[.|!]`, of which one is chosen each time. Each
skill names its file and entry.
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
    """Phrasings of one meaning; the `kept` ones, which have no alternatives, appear in the evaluation only."""

    seen: tuple[str, ...]
    kept: tuple[str, ...]

    @classmethod
    def from_entry(cls, entry: dict[str, Any]) -> Phrasings:
        """Return the phrasings of one entry of a file."""
        return cls(tuple(entry["seen"]), tuple(entry["kept"]))


@cache
def book(name: str) -> dict[str, Any]:
    """Return all entries of `phrases/NAME.toml`, which must not be modified."""
    return tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def phrasings(name: str, entry: str) -> Phrasings:
    """Return the phrasings of `entry` in `phrases/NAME.toml`; dots in `entry` separate tables."""
    found = book(name)
    for key in entry.split("."):
        found = found[key]
    return Phrasings.from_entry(found)


@cache
def all_kept() -> frozenset[str]:
    """Return every phrasing that is kept for the evaluation."""
    tables = [book(path.stem) for path in FOLDER.glob("*.toml")]
    found: set[str] = set()
    while tables:
        table = tables.pop()
        found.update(table.get("kept", ()))
        tables += [value for value in table.values() if isinstance(value, dict)]
    return frozenset(found)


def words(name: str) -> tuple[str, ...]:
    """Return a word list of `phrases/words.toml`."""
    return tuple(str(book("words")[name]).split())
