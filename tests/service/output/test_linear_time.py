"""The time to find tool calls in an answer grows linearly with runs of one character."""

from __future__ import annotations

import time

import pytest

from tests.service.output.families.families import FAMILIES, deltas_of
from tests.service.output.families.family import Family

SHORT, LONG = 1_000, 8_000
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
    for position in range(0, len(text) + 1, 1 + len(text) // 8):
        short, long = (text[:position] + run * length + text[position:] for length in (SHORT, LONG))
        ratio = processor_time(family, long) / processor_time(family, short)
        assert ratio < LIMIT, (position, ratio)
