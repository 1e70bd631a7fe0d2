"""A run's numbers for people."""

from __future__ import annotations

import shutil
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.bench.plot import milliseconds
from cli.bench.summary import TIMES


def table(told: dict[str, Any]) -> str:
    """What was asked, what came of it, and how long it took."""
    console = Console(width=shutil.get_terminal_size((100, 24)).columns, highlight=False, color_system=None)
    with console.capture() as captured:
        console.print(_heading(told), markup=False)
        console.print(_counts(told))
        if told["answered"]:
            console.print(_times(told))
    return captured.get().rstrip()


def _heading(told: dict[str, Any]) -> str:
    pace = f"{told['concurrency']} at once" if told["rate_per_s"] is None else f"{told['rate_per_s']:g} requests/s"
    return f"{told['model']} at {told['url']}, {told['dialect']}, {pace}"


def _counts(told: dict[str, Any]) -> Table:
    grid = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    interrupted = ", ended by Ctrl-C" if told["is_interrupted"] else ""
    grid.add_row("requests", f"{told['answered']} answered, {told['failed']} failed{interrupted}")
    for error, of_kind in told["errors"].items():
        detail = f": {of_kind['example']}" if of_kind["example"] else ""
        grid.add_row("", Text(f"{of_kind['count']} by {error}{detail}"))  # others' words are no markup
    answered = told["answered"]
    if answered:
        prompt = "not told" if told["prompt_tokens"] is None else f"{told['prompt_tokens'] / answered:.0f} tokens"
        counted = "" if told["are_tokens_told"] else " (events: the server tells no tokens)"
        grid.add_row("prompt, answer", f"{prompt}, {told['tokens'] / answered:.0f} tokens{counted}")
        grid.add_row("duration", f"{told['duration_s']:.2f} s")
        grid.add_row("throughput", f"{told['tokens_per_s']:,.1f} tokens/s, {told['requests_per_s']:.2f} requests/s")
    return grid


def _times(told: dict[str, Any]) -> Table:
    found = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0))
    found.add_column("ms")
    for name in ("mean", "p50", "p95", "p99", "max"):
        found.add_column(name, justify="right")
    for name, words in TIMES.items():
        if (spread := told[name]) is not None:
            found.add_row(words, *(milliseconds(value) for value in spread.values()))
    return found
