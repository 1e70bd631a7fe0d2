"""Answers without the markers that their families put around them, for every cut of the text."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from service.generation.constraint import ReasoningMarkers
from service.output.marked_answer import MarkedAnswerParser
from service.output.pieces import TextPiece

MARKERS = ReasoningMarkers("<think>", "</think>", answer_open="<answer>", answer_close="</answer>")
CASES = [
    ("<answer>Hi.</answer>", "Hi."),
    (" \n<answer>\nHi \n there.\n</answer>\n", "Hi \n there.\n"),
    ("<answer>Hi.", "Hi."),
    ("<answer>a < b </ans", "a < b </ans"),
    ("<answer></answer>", ""),
    ("No marker.", "No marker."),
    ("<ans", "<ans"),
    ("", ""),
    ("<call>[]</call>", "<call>[]</call>"),
]


def parse(text: str, cuts: Iterable[int]) -> list[TextPiece]:
    parser = MarkedAnswerParser(MARKERS)
    pieces: list[TextPiece] = []
    begin = 0
    for end in [*cuts, len(text)]:
        pieces += parser.feed(TextPiece(text[begin:end], begin))
        begin = end
    return pieces + parser.close()


@pytest.mark.parametrize(("text", "content"), CASES)
def test_markers_are_taken_off_at_every_cut(text: str, content: str) -> None:
    """The text between them is the answer, each piece the text at its place; the cut changes nothing."""
    for cuts in [*([cut] for cut in range(len(text) + 1)), range(len(text))]:
        pieces = parse(text, cuts)
        assert "".join(piece.text for piece in pieces) == content
        assert all(text[piece.start :].startswith(piece.text) for piece in pieces)
