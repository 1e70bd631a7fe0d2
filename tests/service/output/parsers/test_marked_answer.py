"""The markers around answers are removed, for every cut of the text."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from service.generation.formats.constraint import ReasoningMarkers
from service.generation.outputs.events import Text
from service.output.parsers.marked_answer import MarkedAnswerParser

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


def parse(text: str, cuts: Iterable[int]) -> list[Text]:
    parser = MarkedAnswerParser(MARKERS)
    deltas: list[Text] = []
    begin = 0
    for end in [*cuts, len(text)]:
        deltas += parser.feed(Text(0, text[begin:end], start=begin))
        begin = end
    return deltas + parser.close()


@pytest.mark.parametrize(("text", "content"), CASES)
def test_answer_markers_are_removed_at_every_cut(text: str, content: str) -> None:
    """The text between the markers is the answer, and each delta has its position; the cut changes nothing."""
    for cuts in [*([cut] for cut in range(len(text) + 1)), range(len(text))]:
        deltas = parse(text, cuts)
        assert "".join(delta.text for delta in deltas) == content
        assert all(text[delta.start :].startswith(delta.text) for delta in deltas)
