"""Markdown of what was measured."""

from __future__ import annotations

import statistics
from typing import Any

Record = dict[str, Any]


def table(records: list[Record]) -> str:
    """A row a case: this server's medians and, for each other, the medians of the ratios of the rounds."""
    lines = [
        "| model | prompt | streams | server | tokens/s | first token ms | gap ms | 95 % | first / it | first token, it / first |",
        "|---|--:|--:|---|--:|--:|--:|--:|--:|--:|",
    ]
    cases = dict.fromkeys((r["model"], r["prompt"], r["streams"]) for r in records)
    for case in cases:
        chosen = [r for r in records if (r["model"], r["prompt"], r["streams"]) == case]
        ours = {r["round"]: r for r in chosen if r["server"] == records[0]["server"]}
        for server in dict.fromkeys(r["server"] for r in chosen):
            rs = [r for r in chosen if r["server"] == server]
            mid = {
                name: statistics.median(r[name] for r in rs)
                for name in ("tokens_per_s", "first_token_s", "gap_s", "gap_p95_s")
            }
            pairs = [(ours[r["round"]], r) for r in rs if r["round"] in ours]
            speed = (
                statistics.median(a["tokens_per_s"] / b["tokens_per_s"] for a, b in pairs) if pairs else float("nan")
            )
            first = (
                statistics.median(b["first_token_s"] / a["first_token_s"] for a, b in pairs) if pairs else float("nan")
            )
            lines.append(
                f"| {case[0]} | {case[1]} | {case[2]} | {server} | {mid['tokens_per_s']:.1f} | {1e3 * mid['first_token_s']:.1f} "
                f"| {1e3 * mid['gap_s']:.2f} | {1e3 * mid['gap_p95_s']:.2f} | {speed:.2f} | {first:.2f} |"
            )
    return "\n".join(lines)
