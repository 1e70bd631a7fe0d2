"""Apply one change to several servers: one result per server, and the exit code. Shared by commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeAlias

import typer

from cli.calls.options import fail, print_json, print_text
from cli.calls.server import ServerError

Urls: TypeAlias = Annotated[
    list[str],
    typer.Option(
        envvar="SLUICE_URL",
        help="A server's base URL; repeatable, for replicas without a shared store.",
        show_envvar=True,
    ),
]


def change_all(
    urls: Sequence[str], change: Callable[[str], Any], describe: Callable[[Any], str], *, as_json: bool
) -> None:
    """Call `change(url)` for each server in turn and print `describe(result)`. A failure does not stop the others.

    Raise typer.Exit with 1 if a server failed, or with 130 after Ctrl-C. Ctrl-C does not cancel a change that a server
    has begun.
    """
    results: list[dict[str, Any]] = []
    failures: list[str] = []
    for url in urls:
        prefix = f"{url}: " if len(urls) > 1 else ""
        try:
            answer = change(url)
        except ServerError as error:
            failures.append(f"{prefix}{error}")
            results.append({"url": url, "error": str(error)})
        except KeyboardInterrupt:
            print_text(f"sluice: {prefix}interrupted; the server completes a change that has begun", err=True)
            raise typer.Exit(130) from None
        else:
            results.append({"url": url, **answer})
            if not as_json:
                print_text(f"{prefix}{describe(answer)}")
    if len(urls) == 1 and failures:
        fail(failures[0])
    if as_json:
        print_json(results if len(urls) > 1 else {name: value for name, value in results[0].items() if name != "url"})
    for failure in failures:
        print_text(f"sluice: {failure}", err=True)
    if failures:
        raise typer.Exit(1)


def reject_options_before_subcommand(context: typer.Context) -> None:
    """Raise BadParameter for an option that a subcommand would ignore, as in `sluice models --json load`."""
    for name, option in ((each.name, each.opts[0]) for each in context.command.params):
        source = context.get_parameter_source(name or "")
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(f"{option} must come after {context.invoked_subcommand!r}")


def as_plain(message: Any) -> dict[str, Any]:
    """Return a protobuf message as a JSON object."""
    from google.protobuf.json_format import MessageToDict  # noqa: PLC0415  imported on use, for a fast start

    plain: dict[str, Any] = MessageToDict(message, always_print_fields_with_no_presence=True)
    return plain
