"""`sluice bench`: requests of a known size to a running server, and what became of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.bench.dialects import Way
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
    say,
)
from cli.calls.server import ServerError

_REQUESTS = 100


def bench(
    dialect: Annotated[Way, typer.Option("--dialect", "-d", help="How it is asked.")] = Way.OPENAI_CHAT,
    model: ModelName = "",
    concurrency: Annotated[int, typer.Option("--concurrency", "-c", min=1, help="Requests at once.")] = 8,
    rate: Annotated[
        float | None,
        typer.Option(min=0.001, help="Requests a second instead, at random moments, however many are open then."),
    ] = None,
    requests: Annotated[
        int | None,
        typer.Option("--requests", "-n", min=1, help=f"How many; default: {_REQUESTS}, or no limit of time."),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.1, help="How long requests begin; those that run then are waited for.")
    ] = None,
    prompt_tokens: Annotated[
        int, typer.Option("--prompt-tokens", "-p", min=1, help="Of each prompt, with the chat template.")
    ] = 128,
    max_tokens: Annotated[int, typer.Option("--max-tokens", "-t", min=1, help="Of each answer.")] = 128,
    ignore_eos: Annotated[bool, typer.Option(help="Whether answers go on to their length, where a server can.")] = True,
    warm_up: Annotated[int, typer.Option(min=0, help="Requests before those that count.")] = 4,
    parameter: Annotated[
        list[str], typer.Option("--set", metavar="NAME=VALUE", help="A parameter of requests; repeat for more.")
    ] = [],
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds that a request may take.")] = 600,
    seed: Annotated[int, typer.Option(help="The same one makes the same prompts and moments.")] = 0,
    plot: Annotated[
        str, typer.Option(metavar="FILE", help="Draw how times are spread: an SVG file, or - for here.")
    ] = "",
    as_json: AsJson = False,
    url: Url = DEFAULT,
    key: Key = "",
    ca_file: CaFile = "",
) -> None:
    """Load a server, and tell its speed and latency. Ctrl-C ends it with what was measured so far.

    Exit code 1 if no request was answered.
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
    from cli.bench.run import measure  # noqa: PLC0415  other commands start at once

    with connected(url, key, ca_file) as server:
        if not model and not (names := server.models()):
            raise ServerError(f"{server.url} serves no model that this caller may use")
        target = Target(server.url, dialect, model or names[0], key, ca_file, timeout)
        shape = Shape(prompt_tokens, max_tokens, ignore_eos, parameters)
        with _progress(plan) as watch:
            outcome = measure(target, shape, plan, warm_up, watch)
        _tell(outcome, _asked(target, shape, plan), plot, as_json=as_json)
    if outcome.is_interrupted:
        raise typer.Exit(130)
    if all(record.error for record in outcome.records):
        raise typer.Exit(1)


def _check_plot(path: Path) -> None:
    """Before the load, which may take long."""
    if path.suffix != ".svg":
        fail(f"--plot {path}: must end with .svg, or be -")
    if not path.parent.is_dir():
        fail(f"--plot {path}: there is no folder {path.parent}")


def _asked(target: Target, shape: Shape, plan: Plan) -> dict[str, Any]:
    """The question that the numbers are an answer to."""
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


def _tell(outcome: Outcome, asked: dict[str, Any], plot: str, *, as_json: bool) -> None:
    from cli.bench.plot import as_svg, in_terminal  # noqa: PLC0415  as above
    from cli.bench.summary import summary, times  # noqa: PLC0415
    from cli.bench.table import table  # noqa: PLC0415

    told = {**asked, "is_interrupted": outcome.is_interrupted, **summary(outcome.records)}
    found = times(outcome.records)
    if as_json:
        print_json(told)
    else:
        say(table(told))
        if plot == "-":
            say(in_terminal(found))
    if plot not in {"", "-"}:
        try:
            Path(plot).write_text(as_svg(f"{asked['model']}, {asked['dialect']}", found))
        except OSError as error:
            fail(f"--plot {plot}: {error.strerror or error}")


@contextmanager
def _progress(plan: Plan) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, drawn between requests only; on anything else nothing."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415  as above
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (TextColumn("requests"), BarColumn(), TextColumn("{task.completed:.0f}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=4) as progress:
        bar = progress.add_task("", total=plan.num_requests)
        yield lambda num: progress.update(bar, completed=num)
