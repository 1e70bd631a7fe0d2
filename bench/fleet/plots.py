"""Line plots as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 720, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 160, 36, 44
_COLOURS = ("#2563eb", "#d97706", "#059669", "#7c3aed", "#6b7280", "#dc2626")
_STYLE = "text{font:12px sans-serif;fill:#374151}path{fill:none;stroke-width:2}.grid{stroke:#e5e7eb;stroke-width:1}"

Points = Sequence[tuple[float, float]]


def line_plot(title: str, x_label: str, lines: dict[str, Points], *, most: float | None = None) -> str:
    """Return a plot of the named lines on one scale from 0 to `most`, by default to the largest value."""
    xs = [x for points in lines.values() for x, _ in points]
    first, last = min(xs), max(xs)
    top = most or max(y for points in lines.values() for _, y in points) or 1.0

    def at(x: float, y: float) -> tuple[float, float]:
        across = (x - first) / ((last - first) or 1.0)
        return _LEFT + across * (WIDTH - _LEFT - _RIGHT), HEIGHT - _BOTTOM - min(y / top, 1.0) * (
            HEIGHT - _TOP - _BOTTOM
        )

    parts = []
    for step in range(5):
        value = top * step / 4
        left, y = at(first, value)
        parts.append(f'<path class="grid" d="M{left:.1f} {y:.1f}H{WIDTH - _RIGHT}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>')
    parts += [
        f'<text x="{at(x, 0)[0]:.1f}" y="{HEIGHT - _BOTTOM + 18}" text-anchor="middle">{x:g}</text>'
        for x in _ticks(sorted(set(xs)))
    ]
    for index, (name, points) in enumerate(lines.items()):
        colour = _COLOURS[index % len(_COLOURS)]
        path = "L".join("{:.1f} {:.1f}".format(*at(x, y)) for x, y in points)
        parts.append(f'<path stroke="{colour}" d="M{path}"/>')
        y = _TOP + 18 * index + 8
        parts.append(f'<rect x="{WIDTH - _RIGHT + 14}" y="{y - 10}" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{WIDTH - _RIGHT + 32}" y="{y}">{escape(name)}</text>')
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    parts.append(f'<text x="{middle:.0f}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x_label)}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
    title = escape(title)
    heading = f'<text x="{_LEFT}" y="20" font-weight="bold">{title}</text>'
    return "\n".join([head, f"<title>{title}</title>", f"<style>{_STYLE}</style>", heading, *parts, "</svg>", ""])


def _ticks(xs: list[float]) -> list[float]:
    """Return at most nine of the values."""
    return xs[:: -(-len(xs) // 9)]
