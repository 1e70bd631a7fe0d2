"""Histograms of times, in the terminal or as an SVG file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from xml.sax.saxutils import escape

from cli.bench.summary import TIMES, spread

_BLOCKS: Final = " ▏▎▍▌▋▊▉█"
_WIDTH, _HEIGHT, _GAP, _MARGIN = 720, 110, 56, 8
_STYLE: Final = (
    ":root{color-scheme:light dark}text{font:12px sans-serif;fill:light-dark(#374151,#d1d5db)}"
    ".h{font-size:14px}.l{fill:light-dark(#6b7280,#9ca3af)}rect{fill:#2563eb}"
    "path{stroke:#d97706;stroke-dasharray:4 3}"
)


def binned(values: Sequence[float], num_bins: int) -> list[tuple[float, int]]:
    """Return the start and the count of each of `num_bins` equal bins from 0 to the largest value."""
    width = max(values) / num_bins or 1.0
    counts = [0] * num_bins
    for value in values:
        counts[min(int(value / width), num_bins - 1)] += 1
    return [(index * width, count) for index, count in enumerate(counts)]


def milliseconds(seconds: float) -> str:
    """Format seconds as milliseconds with three significant digits."""
    value = 1e3 * seconds
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def in_terminal(found: Mapping[str, Sequence[float]], num_bins: int = 10, width: int = 40) -> str:
    """Return a histogram for each of the times, one line per bin."""
    lines: list[str] = []
    for name, values in found.items():
        if not values:
            continue
        lines += ["", f"{TIMES[name]}, ms"]
        ranges = binned(values, num_bins)
        most = max(count for _, count in ranges)
        for start, count in ranges:
            whole, part = divmod(round(8 * width * count / most), 8)
            lines.append(f"{milliseconds(start):>9} {_BLOCKS[8] * whole}{_BLOCKS[part].strip()} {count or ''}".rstrip())
    return "\n".join(lines)


def as_svg(title: str, found: Mapping[str, Sequence[float]], num_bins: int = 60) -> str:
    """Return an SVG with a histogram for each of the times, with lines at the percentiles."""
    parts: list[str] = []
    top = 30
    for name, values in found.items():
        if values:
            parts += _panel(TIMES[name], values, top, num_bins)
            top += _HEIGHT + _GAP
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top}" role="img">'
    escaped = escape(title)
    titles = [
        f"<title>{escaped}</title>",
        f"<style>{_STYLE}</style>",
        f'<text class="h" x="{_MARGIN}" y="18">{escaped}</text>',
    ]
    return "\n".join([head, *titles, *parts, "</svg>", ""])


def _panel(label: str, values: Sequence[float], top: int, num_bins: int) -> list[str]:
    """Return the SVG elements of one histogram, `top` pixels below the picture's top."""
    ranges, inner_width = binned(values, num_bins), _WIDTH - 2 * _MARGIN
    most, longest, bottom = max(count for _, count in ranges), max(values) or 1.0, top + _HEIGHT
    parts = []
    for index, (_, count) in enumerate(ranges):
        height = (_HEIGHT - 24) * count / most
        position = f'x="{_MARGIN + index * inner_width / num_bins:.1f}" y="{bottom - height:.1f}"'
        parts.append(f'<rect {position} width="{inner_width / num_bins - 1:.1f}" height="{height:.1f}"/>')
    percentiles = spread(values) or {}
    positions = (_MARGIN + inner_width * percentiles[name] / longest for name in ("p50", "p95", "p99"))
    parts += [f'<path d="M{position:.1f} {top + 22}V{bottom}"/>' for position in positions]
    shown = ", ".join(f"{name} {milliseconds(value)}" for name, value in percentiles.items())
    parts.append(f'<text x="{_MARGIN}" y="{top + 12}">{escape(label)}, ms: {shown}</text>')
    parts.append(f'<text class="l" x="{_MARGIN}" y="{bottom + 14}">0</text>')
    end = f'x="{_WIDTH - _MARGIN}" y="{bottom + 14}" text-anchor="end"'
    return [*parts, f'<text class="l" {end}>{milliseconds(longest)}</text>']
