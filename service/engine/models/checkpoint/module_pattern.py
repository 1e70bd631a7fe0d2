"""Patterns of modules' names in adapters, a part of regular expressions that is matched in linear time.

Python's own matcher needs exponential time for some expressions, and no other thread runs meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, TypeAlias

_MAX_LENGTH: Final = 512  # characters of a pattern
MAX_NAME: Final = 1024  # characters of a module's name
_TOKEN: Final = re.compile(
    r"(?P<open>\((?:\?:)?)"
    r"|(?P<close>\))"
    r"|(?P<or>\|)"
    r"|(?P<start>\^)"
    r"|(?P<end>\$)"
    r"|(?P<one>\\[dDwW]|\\[^\w\s]|\[\^?[\w.\-]+\]|[\w\-.])(?P<count>[*+?])?"
)


@dataclass(frozen=True, slots=True)
class _Characters:
    """One character of a kind, or with `count` any number (*), at least one (+) or at most one (?)."""

    kind: re.Pattern[str]
    count: str

    def ends(self, text: str, starts: AbstractSet[int]) -> set[int]:
        ends = set(starts) if self.count in {"*", "?"} else set()
        reached = set(starts)
        while reached := {at + 1 for at in reached if self.kind.match(text, at)} - ends:
            ends |= reached
            if self.count not in {"*", "+"}:
                break
        return ends


@dataclass(frozen=True, slots=True)
class _Edge:
    """The start or the end of a name."""

    is_start: bool

    def ends(self, text: str, starts: AbstractSet[int]) -> set[int]:
        return set(starts) & {0 if self.is_start else len(text)}


@dataclass(frozen=True, slots=True)
class _Alternatives:
    """One of several sequences."""

    sequences: list[list[_Item]]

    def ends(self, text: str, starts: AbstractSet[int]) -> set[int]:
        ends: set[int] = set()
        for sequence in self.sequences:
            reached = set(starts)
            for item in sequence:
                reached = item.ends(text, reached)
            ends |= reached
        return ends


_Item: TypeAlias = _Characters | _Edge | _Alternatives


class ModulePattern:
    """A pattern that the end of a module's name, from a full stop on, matches entirely."""

    def __init__(self, pattern: str) -> None:
        """Raise ValueError for a pattern that is no regular expression, too long or of unsupported syntax."""
        if len(pattern) > _MAX_LENGTH:
            raise ValueError(f"has more than {_MAX_LENGTH} characters")
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"is no regular expression: {error}") from error
        self._root = _parsed(pattern)
        # Without repetitions and alternatives, Python's matcher is as fast as it can be.
        self._plain = None if set(pattern) & set("(|*+?") else re.compile(rf"(?s:.*\.)?{pattern}")

    def fits(self, module: str) -> bool:
        """Return True if the pattern matches a module's name, of at most MAX_NAME characters."""
        if self._plain is not None:
            return self._plain.fullmatch(module) is not None
        starts = {0} | {at + 1 for at, character in enumerate(module) if character == "."}
        return len(module) in self._root.ends(module, starts)


def _parsed(pattern: str) -> _Alternatives:
    """Return the pattern's root. The brackets of a regular expression are balanced."""
    opened = [_Alternatives([[]])]
    at = 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            raise ValueError(
                f"has unsupported syntax at {pattern[at:][:20]!r}; characters, classes of them, \\d, \\w, each with "
                "*, + or ?, and groups with | are supported"
            )
        at = token.end()
        if token["open"]:
            group = _Alternatives([[]])
            opened[-1].sequences[-1].append(group)
            opened.append(group)
        elif token["close"]:
            opened.pop()
        elif token["or"]:
            opened[-1].sequences.append([])
        elif token["start"] or token["end"]:
            opened[-1].sequences[-1].append(_Edge(bool(token["start"])))
        else:
            opened[-1].sequences[-1].append(_Characters(re.compile(token["one"]), token["count"] or ""))
    return opened[0]
