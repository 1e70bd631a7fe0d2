"""The command `sluice` and its subcommands, one file each."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.bench.command import bench
from cli.commands import (
    adapters,
    certs,
    chat,
    endpoints,
    generate,
    keys,
    models,
    programs,
    receipts,
    replay,
    run,
    status,
    usage,
)
from process.distribution import installed_version

APP = typer.Typer(
    name="sluice",
    help="Serve models, and use model servers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
programs.add_to(APP)
for command in (
    chat.chat,
    generate.complete,
    generate.embed,
    endpoints.endpoints,
    replay.replay,
    status.status,
    usage.usage,
    bench,
):
    APP.command()(command)
APP.command(context_settings=run.CONTEXT)(run.run)
APP.add_typer(models.APP, name="models")
APP.add_typer(adapters.APP, name="adapters")
APP.add_typer(keys.APP, name="keys")
APP.add_typer(certs.APP, name="certs")
APP.add_typer(receipts.APP, name="receipts")


def _show_version(is_requested: bool) -> None:  # noqa: FBT001  typer's callback signature
    if is_requested:
        typer.echo(installed_version())
        raise typer.Exit


@APP.callback()
def _sluice(
    _: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Serve models, and use model servers."""
