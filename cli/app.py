"""The command `sluice`: its sub-commands, one file each."""

from __future__ import annotations

import typer

from cli import certs, keys, serve

APP = typer.Typer(
    name="sluice",
    help="Operate sluice.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
serve.add_to(APP)
APP.add_typer(certs.APP, name="certs")
APP.add_typer(keys.APP, name="keys")


@APP.callback()
def _sluice() -> None:
    """Operate sluice."""
