"""`sluice bench`: send requests of a known size to a running server, and report speed and latency."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.bench.dialects import DialectName
from cli.bench.plan import Outcome, Plan, Shape, Target
from cli.calls.options import (
    DEFAULT,
    AsJson,
    CaFile,
    Key,
    ModelName,
    Url,
    connected,
    fail,
    named_value,
    print_json,
    print_text,
)
from cli.calls.server import ServerError

_REQUESTS = 100


def bench(
    dialect: Annotated[DialectName, typer.Option("--dialect", "-d", help="The API to use.")] = DialectName.OPENAI_CHAT,
    model: ModelName = "",
    concurrency: Annotated[int, typer.Option("--concurrency", "-c", min=1, help="Concurrent requests.")] = 8,
    rate: Annotated[
        float | None,
        typer.Option(min=0.001, help="Requests per second instead, at random times, regardless of open requests."),
    ] = None,
    requests: Annotated[
        int | None,
        typer.Option(
            "--requests", "-n", min=1, help=f"Number of requests; default: {_REQUESTS}, or unlimited with --seconds."
        ),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.1, help="Seconds in which requests start; running ones are awaited.")
    ] = None,
    prompt_tokens: Annotated[
        int, typer.Option("--prompt-tokens", "-p", min=1, help="Tokens per prompt, including the chat template.")
    ] = 128,
    max_tokens: Annotated[int, typer.Option("--max-tokens", "-t", min=1, help="Maximum tokens per answer.")] = 128,
    ignore_eos: Annotated[bool, typer.Option(help="Generate up to max-tokens, if the server supports it.")] = True,
    warm_up: Annotated[int, typer.Option(min=0, help="Warm-up requests that are not counted.")] = 4,
    parameter: Annotated[
        list[str], typer.Option("--set", metavar="NAME=VALUE", help="A request parameter; repeatable.")
    ] = [],
    timeout: Annotated[float, typer.Option(min=0.1, help="Timeout of a request in seconds.")] = 600,
    seed: Annotated[int, typer.Option(help="The same seed gives the same prompts and times.")] = 0,
    plot: Annotated[
        str, typer.Option(metavar="FILE", help="Draw histograms of times: an SVG file, or - for the terminal.")
    ] = "",
    as_json: AsJson = False,
    url: Url = DEFAULT,
    key: Key = "",
    ca_file: CaFile = "",
) -> None:
    """Measure the speed and latency of a server under load. Ctrl-C reports the results so far.

    Exits with code 1 if no request succeeded.
    """
    try:
        parameters = {name: value for name, value in map(named_value, parameter) if value is not None}
    except ValueError as error:
        fail(f"--set {error}")
    if plot not in {"", "-"}:
        _check_plot(Path(plot))
    if requests is None and seconds is None:
        requests = _REQUESTS
    plan = Plan(concurrency, rate, requests, seconds, seed)
    from cli.bench.run import measure  # noqa: PLC0415  imported on use, for a fast start

    with connected(url, key, ca_file) as server:
        if not model and not (names := server.models()):
            raise ServerError(f"{server.url} serves no model that this key may use")
        target = Target(server.url, dialect, model or names[0], key, ca_file, timeout)
        shape = Shape(prompt_tokens, max_tokens, ignore_eos, parameters)
        with _progress(plan) as watch:
            outcome = measure(target, shape, plan, warm_up, watch)
        _print_report(outcome, _parameters(target, shape, plan), plot, as_json=as_json)
    if outcome.is_interrupted:
        raise typer.Exit(130)
    if all(record.error for record in outcome.records):
        raise typer.Exit(1)


def _check_plot(path: Path) -> None:
    """Check the plot's path before the load, which may take long."""
    if path.suffix != ".svg":
        fail(f"--plot {path}: must end with .svg, or be -")
    if not path.parent.is_dir():
        fail(f"--plot {path}: the folder {path.parent} does not exist")


def _parameters(target: Target, shape: Shape, plan: Plan) -> dict[str, Any]:
    """Return the parameters of the run, for the report."""
    return {
        "url": target.url,
        "model": target.model,
        "dialect": target.dialect,
        "concurrency": plan.concurrency if plan.rate is None else None,
        "rate_per_s": plan.rate,
        "prompt_tokens_asked": shape.prompt_tokens,
        "max_tokens": shape.max_tokens,
        "ignore_eos": shape.ignores_end,
        "parameters": dict(shape.parameters),
        "seed": plan.seed,
    }


def _print_report(outcome: Outcome, parameters: dict[str, Any], plot: str, *, as_json: bool) -> None:
    """Print a benchmark's report as a table and plots, or as JSON."""
    from cli.bench.plot import as_svg, in_terminal  # noqa: PLC0415  imported on use, for a fast start
    from cli.bench.summary import summary, times  # noqa: PLC0415
    from cli.bench.table import table  # noqa: PLC0415

    report = {**parameters, "is_interrupted": outcome.is_interrupted, **summary(outcome.records)}
    found = times(outcome.records)
    if as_json:
        print_json(report)
    else:
        print_text(table(report))
        if plot == "-":
            print_text(in_terminal(found))
    if plot not in {"", "-"}:
        try:
            Path(plot).write_text(as_svg(f"{parameters['model']}, {parameters['dialect']}", found))
        except OSError as error:
            fail(f"--plot {plot}: {error.strerror or error}")


@contextmanager
def _progress(plan: Plan) -> Iterator[Callable[[int], None]]:
    """Show a progress bar if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415  imported on use, for a fast start
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (TextColumn("requests"), BarColumn(), TextColumn("{task.completed:.0f}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=4) as progress:
        bar = progress.add_task("", total=plan.num_requests)
        yield lambda num: progress.update(bar, completed=num)
