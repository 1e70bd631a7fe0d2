"""What parsers turn a choice's text into.

Owns plain values. A parser takes the text in any chunks and returns pieces in order; joined by kind, they are the same
for every chunking.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Content:
    """Text of the answer: the characters of the choice's text from index `start` on, verbatim."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Text of the thinking before the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """A tool call begins. Its name is one of the request's tools."""

    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """More of the last begun call's arguments."""

    text: str


Piece = Content | Reasoning | CallStart | CallArguments
