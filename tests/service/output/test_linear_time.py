"""The time to parse an answer grows linearly with runs of one character."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial

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


def least_ratio(long: Callable[[], object], short: Callable[[], object], limit: float) -> float:
    """Return the ratio of the processor times of two calls, measured again if it is not below the limit.

    Other work on the machine can only lengthen a time, so the shortest of several runs is compared.
    """
    long_s = short_s = math.inf
    for _ in range(5):
        long_s = min(long_s, processor_time(long))
        short_s = min(short_s, processor_time(short), processor_time(short))
        if long_s < limit * short_s:
            break
    return long_s / short_s


def processor_time(call: Callable[[], object]) -> float:
    """Return the processor time of a call, in seconds."""
    begin = time.thread_time()
    call()
    return time.thread_time() - begin


@pytest.mark.slow
@pytest.mark.parametrize(
    "run",
    [
        pytest.param(" ", id="space"),
        pytest.param("\u00a0", id="no-break-space", marks=pytest.mark.long),
        pytest.param("<", id="angle", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: str(family.syntax.name))
def test_time_is_linear_in_a_run(family: Family, run: str) -> None:
    """The run may be before a call, in its marker, its name or its arguments, or after it."""
    text = family.cases[-1][0]
    for position in range(0, len(text) + 1, 1 + len(text) // 5):
        short, long = (
            partial(parse, family, text[:position] + run * length + text[position:]) for length in (SHORT, LONG)
        )
        ratio = least_ratio(long, short, LIMIT)
        assert ratio < LIMIT, (position, ratio)


def parse(family: Family, text: str) -> None:
    deltas_of(family.syntax, text, cuts=range(0, len(text), TOKEN))


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
    long, short = (partial(read, before + run * (length // len(run))) for length in (320_000, 40_000))
    assert least_ratio(long, short, 28) < 28
