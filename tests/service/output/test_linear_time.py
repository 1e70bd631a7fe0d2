"""The time to parse an answer grows linearly with runs of one character."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from service.generation.formats.constraint import ReasoningMarkers, ReasoningStart
from service.generation.outputs.events import Text
from service.output.parsers.marked_answer import MarkedAnswerParser
from service.output.parsers.reasoning import ReasoningParser
from tests.service.output.families.families import FAMILIES, deltas_of
from tests.service.output.families.family import Family

SHORT, LONG = 4_000, 32_000
LIMIT = 3.5 * LONG / SHORT  # of the ratio of their times: 8 if linear, 64 if quadratic
TOKEN = 40  # characters; the text comes in tokens of this length


def processor_time(family: Family, text: str) -> float:
    """Return the shortest of three runs, in seconds."""
    times = []
    for _ in range(3):
        begin = time.thread_time()
        deltas_of(family.syntax, text, cuts=range(0, len(text), TOKEN))
        times.append(time.thread_time() - begin)
    return min(times)


@pytest.mark.slow
@pytest.mark.parametrize("run", [" ", "\u00a0", "<"], ids=["space", "no-break-space", "angle"])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: str(family.syntax.name))
def test_time_is_linear_in_a_run(family: Family, run: str) -> None:
    """The run may be before a call, in its marker, its name or its arguments, or after it."""
    text = family.cases[-1][0]
    for position in range(0, len(text) + 1, 1 + len(text) // 5):
        short, long = (text[:position] + run * length + text[position:] for length in (SHORT, LONG))
        ratio = processor_time(family, long) / processor_time(family, short)
        assert ratio < LIMIT, (position, ratio)


MARKERS = ReasoningMarkers("<think>", "</think>", answer_open="<answer>", answer_close="</answer>")


def read_reasoning(text: str) -> None:
    parser = ReasoningParser(MARKERS, ReasoningStart.MAY_OPEN)
    for begin in range(0, len(text), 4):
        parser.feed(text[begin : begin + 4])
        assert parser.num_held <= len(text)
    parser.close()


def read_marked(text: str) -> None:
    parser = MarkedAnswerParser(MARKERS)
    for begin in range(0, len(text), 4):
        parser.feed(Text(0, text[begin : begin + 4], start=begin))
    parser.close()


@pytest.mark.slow
@pytest.mark.parametrize("run", [" ", "\n", "<", "</"], ids=["space", "line", "angle", "closing"])
@pytest.mark.parametrize("before", ["", "<think>", "<think>x", "<answer>x"])
@pytest.mark.parametrize("read", [read_reasoning, read_marked])
def test_time_of_markers_is_linear_in_a_run(read: Callable[[str], None], before: str, run: str) -> None:
    """Text that is held back takes no more time per token the longer it gets."""

    def time_of(length: int) -> float:
        times = []
        for _ in range(3):
            begin = time.thread_time()
            read(before + run * (length // len(run)))
            times.append(time.thread_time() - begin)
        return min(times)

    assert time_of(320_000) < 28 * time_of(40_000)
