"""Bar plots of each server's tokens per second, as SVG."""

from __future__ import annotations

import statistics
from typing import Any
from xml.sax.saxutils import escape

WIDTH, ROW, LEFT, RIGHT = 720, 18, 190, 90
COLOURS = ("#2563eb", "#d97706", "#6b7280", "#059669", "#7c3aed")


def plot(records: list[dict[str, Any]]) -> str:
    """Return a group of bars for each case of the scenario `chats`, each group scaled to its fastest bar."""
    chats = [record for record in records if record["scenario"] == "chats"]
    servers = list(dict.fromkeys(record["server"] for record in chats))
    medians: dict[tuple[str, int, int], dict[str, float]] = {}
    for record in chats:
        key = (record["model"], record["case"]["prompt"], record["case"]["streams"])
        found = [
            each["numbers"]["tokens_per_s"]
            for each in chats
            if (each["model"], each["case"], each["server"]) == (record["model"], record["case"], record["server"])
        ]
        medians.setdefault(key, {})[record["server"]] = statistics.median(found)
    parts: list[str] = []
    top = 2 * ROW
    for (model, prompt, streams), values in medians.items():
        label = f"{model}, prompt {prompt}, {streams} stream{'s' * (streams > 1)}"
        parts.append(f'<text x="0" y="{top + ROW * len(values) / 2 + 4:.0f}">{escape(label)}</text>')
        for server, value in values.items():
            width = (WIDTH - LEFT - RIGHT) * value / max(values.values())
            colour = COLOURS[servers.index(server) % len(COLOURS)]
            parts.append(f'<rect x="{LEFT}" y="{top}" width="{width:.1f}" height="{ROW - 4}" fill="{colour}"/>')
            parts.append(f'<text x="{LEFT + width + 6:.1f}" y="{top + 12}">{value:,.0f}</text>')
            top += ROW
        top += ROW // 2
    for index, server in enumerate(servers):
        x = index * WIDTH // len(servers)
        parts.append(f'<rect x="{x}" y="4" width="12" height="12" fill="{COLOURS[index % len(COLOURS)]}"/>')
        parts.append(f'<text x="{x + 18}" y="15">{escape(server)}</text>')
    style = "text{font:12px sans-serif;fill:#374151}@media(prefers-color-scheme:dark){text{fill:#d1d5db}}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" role="img">'
    return "\n".join([head, "<title>Tokens a second</title>", f"<style>{style}</style>", *parts, "</svg>", ""])
