"""A terminal session as an animated SVG: each line appears when the program wrote it, in a loop.

The animation is CSS, which also runs in an image, and is disabled if the reader prefers reduced motion.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.text import Text

LONGEST_PAUSE_S: Final = 1.5  # waiting times, such as loading a model, are shortened
HOLD_S: Final = 6.0  # pause at the end, before the animation restarts


@dataclass(frozen=True, slots=True)
class Line:
    """One line's final text, and the time in seconds at which its first character arrived."""

    text: Text
    moment: float


def lines_of(text: str, moments: Sequence[tuple[float, int]]) -> list[Line]:
    """Return the lines of a program's output. `moments` are instants and the number of characters received by then."""
    found, start = [], 0
    for line in text.splitlines(keepends=True):
        moment = next((at for at, length in moments if length > start), moments[-1][0])
        found.append(Line(Text.from_ansi(line.rstrip("\n")), moment))
        start += len(line)
    return found


def animated_svg(lines: Sequence[Line], columns: int) -> str:
    """Return an SVG animation in which each line appears when it arrived."""
    console = Console(record=True, width=columns, force_terminal=True, file=io.StringIO())
    shown: list[float] = []  # when each row appears; a long line has several rows
    at, before = 0.0, lines[0].moment
    for line in lines:
        at += min(max(line.moment - before, 0.0), LONGEST_PAUSE_S)
        before = line.moment
        shown += [at] * len(console.render_lines(line.text, pad=False))
        console.print(line.text)
    drawn = console.export_svg(title="sluice", unique_id="sluice")
    drawn = re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL)  # no font is loaded from another site
    drawn = re.sub(
        r'<text class="([\w-]+)"([^>]*clip-path="url\(#sluice-line-(\d+)\)")', r'<text class="\1 row-\3"\2', drawn
    )
    return drawn.replace("</style>", f"{_motion(shown)}    </style>", 1)


def _motion(shown: Sequence[float]) -> str:
    length_s = shown[-1] + HOLD_S
    rules = []
    for row, moment in enumerate(shown):
        part = 100 * moment / length_s
        if moment:
            rules.append(
                f"@keyframes row-{row} {{ 0%, {part:.2f}% {{ opacity: 0 }} {part + 0.01:.2f}%, 100% {{ opacity: 1 }} }}"
            )
            rules.append(f".row-{row} {{ animation: row-{row} {length_s:.2f}s infinite }}")
    motion = "\n".join(f"      {rule}" for rule in rules)
    return f"    @media (prefers-reduced-motion: no-preference) {{\n{motion}\n    }}\n"
