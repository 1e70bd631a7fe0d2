"""Reasoning is separated from content, for every cut of the text."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.generation.formats.constraint import ReasoningMarkers, ReasoningStart
from service.generation.outputs.events import Delta, Text
from service.output.families.reasoning_families import THINK, reasoning_markers
from service.output.parsers.reasoning import ReasoningParser
from tests.service.output.fakes import join
from tests.service.prompts.fakes import CHATML

MARKERS = THINK
NONE, MAY_OPEN, OPEN = ReasoningStart

# (where the answer begins, text, reasoning, content)
CASES = [
    (NONE, "<think>a</think>b", "", "<think>a</think>b"),
    (MAY_OPEN, "<think>\na b\n</think>\n\nc\n", "a b", "c\n"),
    (MAY_OPEN, " \n<think>a</think>b", "a", "b"),
    (MAY_OPEN, "b <think>a</think>", "", "b <think>a</think>"),
    (MAY_OPEN, "<thin", "", "<thin"),
    (MAY_OPEN, "<think", "", "<think"),
    (MAY_OPEN, "  ", "", "  "),
    (MAY_OPEN, "", "", ""),
    (MAY_OPEN, "<think></think>", "", ""),
    (MAY_OPEN, "<think>\n\n</think>\n\n  indented", "", "  indented"),
    (OPEN, "a</think>b", "a", "b"),
    (OPEN, "\n a < b </thin </think>\r\n\n<think>", "a < b </thin", "<think>"),
    (OPEN, "never closed \n</thi", "never closed \n</thi", ""),
    (OPEN, "a</think>\n\n", "a", ""),
    (OPEN, "</think></think>", "", "</think>"),
]


def parse(start: ReasoningStart, text: str, cuts: Sequence[int]) -> tuple[ReasoningParser, list[Delta]]:
    parser = ReasoningParser(MARKERS, start)
    deltas: list[Delta] = []
    begin = 0
    for end in [*cuts, len(text)]:
        deltas += parser.feed(text[begin:end])
        begin = end
    return parser, deltas + list(parser.close())


@pytest.mark.parametrize(("start", "text", "reasoning", "content"), CASES)
def test_parser_splits_reasoning_from_content_at_every_cut(
    start: ReasoningStart, text: str, reasoning: str, content: str
) -> None:
    """Markers and the white space around them belong to neither; the cut changes nothing."""
    cuts = [[cut] for cut in range(len(text) + 1)]
    for cut in [*cuts, range(len(text))]:
        assert join(parse(start, text, cut)[1]) == (reasoning, content, [])


@given(
    start=st.sampled_from(ReasoningStart),
    fragments=st.lists(st.sampled_from(["<think>", "</think>", "</thi", "<", "a", " ", "\n", "é"]), max_size=10),
    data=st.data(),
)
def test_parser_is_chunk_invariant_and_points_at_its_content(
    start: ReasoningStart, fragments: list[str], data: st.DataObject
) -> None:
    """For any text, cuts change neither deltas nor the content's start, and content is the text at its position."""
    text = "".join(fragments)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    whole, deltas = parse(start, text, [])
    cut, cut_deltas = parse(start, text, cuts)
    assert join(deltas) == join(cut_deltas)
    assert (whole.content_start, whole.has_reasoned) == (cut.content_start, cut.has_reasoned)
    for delta in cut_deltas:
        if isinstance(delta, Text):
            assert text[delta.start : delta.start + len(delta.text)] == delta.text


def test_parser_holds_back_only_what_may_be_a_marker() -> None:
    """Reasoning is emitted as it comes, except for a possible marker and the white space before it."""
    parser = ReasoningParser(MARKERS, OPEN)
    assert join(parser.feed("so then \n</th")) == ("so then", "", [])
    assert parser.num_held == len(" \n</th")
    assert join(parser.feed("e")) == (" \n</the", "", [])


def test_markers_are_read_from_the_template() -> None:
    """A template with known markers belongs to a model that reasons."""
    assert reasoning_markers(CHATML) == MARKERS
    assert reasoning_markers("[THINK]{{ x }}[/THINK]") == ReasoningMarkers("[THINK]", "[/THINK]", "", "")
    assert reasoning_markers("{{ messages }}") is None
