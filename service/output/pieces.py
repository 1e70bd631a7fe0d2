"""The pieces into which parsers split a choice's text.

A parser takes the text in any chunks and returns pieces in order; joined by kind, they are the same for every chunking.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class TextPiece(NamedTuple):
    """Text of the answer: the characters of the choice's text from index `start` on, verbatim."""

    text: str
    start: int


class ReasoningPiece(NamedTuple):
    """Text of the reasoning before the answer."""

    text: str


class CallPiece(NamedTuple):
    """A tool call begins. Its name is one of the request's tools."""

    name: str


class ArgumentsPiece(NamedTuple):
    """More of the last begun call's arguments."""

    text: str


Piece: TypeAlias = TextPiece | ReasoningPiece | CallPiece | ArgumentsPiece
