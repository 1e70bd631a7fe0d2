"""The recording of a terminal: every line appears at its time, in a self-contained picture."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from tools.docs.recording import HOLD_S, LONGEST_PAUSE_S, animated_svg, lines_of

MOMENTS = [(10.0, 4), (10.5, 9), (99.0, 14)]
TEXT = "one\ntwo\nthr\nee\n"


def test_time_of_a_line_is_that_of_its_first_character() -> None:
    assert [(line.text.plain, line.moment) for line in lines_of(TEXT, MOMENTS)] == [
        ("one", 10.0),
        ("two", 10.5),
        ("thr", 10.5),
        ("ee", 99.0),
    ]


def test_rows_appear_in_order_and_pauses_are_short() -> None:
    """A wrapped line appears as a whole, and the first line is visible from the start."""
    svg = animated_svg(lines_of("a\n" + "b" * 30 + "\nc\n", [(0.0, 2), (1.0, 33), (60.0, 35)]), 20)
    ET.fromstring(svg)  # noqa: S314  our own
    length_s = 1.0 + LONGEST_PAUSE_S + HOLD_S
    found = {int(row): float(part) for row, part in re.findall(r"@keyframes row-(\d+) { 0%, ([\d.]+)%", svg)}
    assert found == {
        row: round(100 * moment / length_s, 2) for row, moment in ((1, 1.0), (2, 1.0), (3, 1.0 + LONGEST_PAUSE_S))
    }
    assert all(f'row-{row}"' in svg for row in range(4))


def test_the_picture_loads_nothing_and_respects_reduced_motion() -> None:
    svg = animated_svg(lines_of(TEXT, MOMENTS), 40)
    assert re.findall(r'(?:href|src|url)\s*[=(]\s*["\']?(?!#)[^)\s]*', svg) == []
    outside = re.sub(r"@media \(prefers-reduced-motion: no-preference\) {.*?\n    }\n", "", svg, flags=re.DOTALL)
    assert "animation" not in outside
