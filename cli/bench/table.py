"""The report of a run as a table."""

from __future__ import annotations

import shutil
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.bench.plot import milliseconds
from cli.bench.summary import TIMES


def table(report: dict[str, Any]) -> str:
    """Return the parameters, counts and times of a run as text."""
    console = Console(width=shutil.get_terminal_size((100, 24)).columns, highlight=False, color_system=None)
    with console.capture() as captured:
        console.print(_heading(report), markup=False)
        console.print(_counts(report))
        if report["answered"]:
            console.print(_times(report))
    return captured.get().rstrip()


def _heading(report: dict[str, Any]) -> str:
    """Return the line with the model, the server and the load."""
    load = (
        f"{report['concurrency']} concurrent"
        if report["rate_per_s"] is None
        else f"{report['rate_per_s']:g} requests/s"
    )
    return f"{report['model']} at {report['url']}, {report['dialect']}, {load}"


def _counts(report: dict[str, Any]) -> Table:
    """Return the table of requests and tokens."""
    grid = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    interrupted = ", ended by Ctrl-C" if report["is_interrupted"] else ""
    grid.add_row("requests", f"{report['answered']} answered, {report['failed']} failed{interrupted}")
    for error, of_kind in report["errors"].items():
        detail = f": {of_kind['example']}" if of_kind["example"] else ""
        grid.add_row("", Text(f"{of_kind['count']} by {error}{detail}"))  # server text must not be parsed as markup
    answered = report["answered"]
    if answered:
        prompt = "unknown" if report["prompt_tokens"] is None else f"{report['prompt_tokens'] / answered:.0f} tokens"
        counted = "" if report["has_token_counts"] else " (events; the server does not report tokens)"
        grid.add_row("prompt, answer", f"{prompt}, {report['tokens'] / answered:.0f} tokens{counted}")
        grid.add_row("duration", f"{report['duration_s']:.2f} s")
        grid.add_row("throughput", f"{report['tokens_per_s']:,.1f} tokens/s, {report['requests_per_s']:.2f} requests/s")
    return grid


def _times(report: dict[str, Any]) -> Table:
    """Return the table of durations in milliseconds, with a row per quantity."""
    found = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0))
    found.add_column("ms")
    for name in ("mean", "p50", "p95", "p99", "max"):
        found.add_column(name, justify="right")
    for name, label in TIMES.items():
        if (spread := report[name]) is not None:
            found.add_row(label, *(milliseconds(value) for value in spread.values()))
    return found
