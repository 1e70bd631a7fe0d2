"""Simulate fleets of replicas.

`python -m bench.fleet loads sizes fronts failures autoscaling parts classes tails` simulates and prints tables, and
draws them with --plots FOLDER. `calibrate` measures step times for --table. `validate` runs the same traffic on a
simulated and a real fleet.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from bench.fleet.classes import class_rows
from bench.fleet.parts import need
from bench.fleet.plots import line_plot
from bench.fleet.scenarios import Scenarios, Table
from bench.fleet.simulated.step_model import CPU_EXAMPLE, EXAMPLE, StepModel, load_table
from bench.fleet.tails import tail_rows
from service.engine.interface.config import EngineConfig

_LOADS = (4.0, 8.0, 12.0, 16.0, 20.0)
_CLASS_LOADS = (16.0, 20.0, 24.0, 28.0)
_TAIL_LOADS = (0.5, 0.8, 1.0, 2.0, 4.0, 8.0)  # of the capacity


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m bench.fleet", description=__doc__.partition(".")[0])
    parser.add_argument(
        "what",
        nargs="+",
        help="loads, sizes, fronts, failures, autoscaling, parts, classes, tails, calibrate, validate",
    )
    parser.add_argument("--model", default="demo/model", help="calibrate: a folder or hub id")
    parser.add_argument(
        "--table", type=Path, help="step times that calibrate wrote; default: an example for an 8 B model"
    )
    parser.add_argument("--output", type=Path, help="calibrate: the file to write")
    parser.add_argument("--plots", type=Path, help="folder for SVG files")
    parser.add_argument("--replicas", type=int, nargs="+", default=[10, 100, 1000], help="sizes: numbers of replicas")
    parser.add_argument("--load", type=float, default=8.0, help="requests per second and replica")
    parser.add_argument(
        "--ways", nargs="+", default=["least request", "bounded maglev"], help="validate: the balancers"
    )
    parser.add_argument("--loads", type=float, nargs="+", default=[0.9, 2.5], help="validate: conversations per second")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    steps = load_table(options.table) if options.table else EXAMPLE
    scenarios = Scenarios(steps, options.seed)
    known: dict[str, Callable[[], Table]] = {
        "loads": lambda: scenarios.loads(10, _LOADS),
        "sizes": lambda: scenarios.sizes(options.load, tuple(options.replicas)),
        "fronts": lambda: scenarios.fronts(50, 2 * options.load),
        "failures": lambda: scenarios.failures(20, 1.5 * options.load),
        "autoscaling": lambda: scenarios.autoscaling(options.load),
        "parts": lambda: [dict(asdict(need(number, 8.0, 180.0))) for number in (3, 10, 30, 100, 300, 1000)],
        "classes": lambda: class_rows(StepModel(steps), options.seed, _CLASS_LOADS),
        "tails": lambda: tail_rows(StepModel(steps if options.table else CPU_EXAMPLE), options.seed, _TAIL_LOADS),
        "calibrate": lambda: _calibrate(options.model, options.output),
        "validate": lambda: _validate(options.seed, options.ways, options.loads),
    }
    for name in options.what:
        if name not in known:
            parser.error(f"{name!r} must be one of {', '.join(known)}")
        table = known[name]()
        print(f"\n{name}, seed {options.seed}\n\n{markdown(table)}", flush=True)
        if options.plots:
            _draw(name, table, options.plots)


def _calibrate(model: str, output: Path | None) -> Table:
    # Imported late, since models need torch but simulations don't.
    from bench.fleet.measured.calibrate import calibrate  # noqa: PLC0415

    table = calibrate(model, EngineConfig())
    if output is not None:
        table.save(output)
    rows: Table = [{"step": f"decode of {number}", "ms": seconds * 1e3} for number, seconds in table.decode]
    return rows + [{"step": f"prompt of {number}", "ms": seconds * 1e3} for number, seconds in table.prefill]


def _validate(seed: int, ways: list[str], loads: list[float]) -> Table:
    from bench.fleet.measured.validate import validate  # noqa: PLC0415  needs torch

    return [
        {
            "way": each.way,
            "conversations per second": each.load,
            "figure": each.name,
            "simulated": each.simulated,
            "real": each.real,
            "difference %": 100 * each.difference,
        }
        for each in validate(seed, ways, loads)
    ]


def markdown(table: Table) -> str:
    """Return the rows as a Markdown table; numbers have three digits."""
    names = list(table[0])
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(_shown(row[name]) for name in names) + " |" for row in table]
    return "\n".join(lines)


def _shown(value: str | float) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _draw(name: str, table: Table, folder: Path) -> None:
    """Draw a table's figure as lines, if a plot is defined for it."""
    plots = {
        "loads": ("way", "requests per second and replica", "good", "Good requests, 10 replicas"),
        "failures": ("what", "at", "first_token_p95_s", "First token, 95 %, while replicas die or restart, s"),
    }
    if name not in plots:
        return
    by, x, y, title = plots[name]
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in table:
        lines.setdefault(str(row[by]), []).append((float(row[x]), float(row[y])))
    label = "seconds" if x == "at" else x
    (folder / f"fleet-{name}.svg").write_text(
        line_plot(title, label, dict(lines), most=1.0 if y == "good" else None), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
