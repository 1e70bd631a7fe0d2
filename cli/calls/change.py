"""What commands that change a server have in common: several servers, one answer a server, and how they end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeAlias

import typer

from cli.calls.options import fail, print_json, say
from cli.calls.server import ServerError

Urls: TypeAlias = Annotated[
    list[str],
    typer.Option(
        envvar="SLUICE_URL", help="A server's base URL; repeat for replicas without a store.", show_envvar=True
    ),
]


def change_all(urls: Sequence[str], change: Callable[[str], Any], tell: Callable[[Any], str], *, as_json: bool) -> None:
    """Change each server, one after the other; `tell` says what came of it. Those after one that refuses are changed.

    Raises typer.Exit: 1 if one refused, 130 after Ctrl-C, which a server doesn't hear of.
    """
    told: list[dict[str, Any]] = []
    refusals: list[str] = []
    for url in urls:
        before = f"{url}: " if len(urls) > 1 else ""
        try:
            answer = change(url)
        except ServerError as error:
            refusals.append(f"{before}{error}")
            told.append({"url": url, "error": str(error)})
        except KeyboardInterrupt:
            say(f"sluice: {before}not waited for; a change that has begun goes on there", err=True)
            raise typer.Exit(130) from None
        else:
            told.append({"url": url, **answer})
            if not as_json:
                say(f"{before}{tell(answer)}")
    if len(urls) == 1 and refusals:
        fail(refusals[0])
    if as_json:
        print_json(told if len(urls) > 1 else {name: value for name, value in told[0].items() if name != "url"})
    for refusal in refusals:
        say(f"sluice: {refusal}", err=True)
    if refusals:
        raise typer.Exit(1)


def no_options_before(context: typer.Context) -> None:
    """End the command if options of the list stand before a sub-command, which wouldn't see them."""
    for name, option in ((each.name, each.opts[0]) for each in context.command.params):
        source = context.get_parameter_source(name or "")
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(f"{option} must stand after {context.invoked_subcommand!r}")


def as_plain(message: Any) -> dict[str, Any]:
    """A message of the contract in protobuf's JSON."""
    from google.protobuf.json_format import MessageToDict  # noqa: PLC0415  as for gRPC

    plain: dict[str, Any] = MessageToDict(message, always_print_fields_with_no_presence=True)
    return plain
