"""`sluice certs`: certificates for development, by an authority of one's own.

Not for production: the authority's key lies beside the certificates. Exit code 1 comes with one line that says what is
wrong.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runner.tls.certificates import MAX_DAYS, make_certificates

APP = typer.Typer(help="Certificates for TLS.", no_args_is_help=True, rich_markup_mode=None)


@APP.callback()
def _certs() -> None:
    """Certificates for TLS."""


@APP.command()
def dev(
    folder: Annotated[Path, typer.Argument(help="Where the files are written.")] = Path("certs"),
    name: Annotated[
        list[str], typer.Option(help="Host name or address in the server's certificate; repeat for more.")
    ] = ["localhost", "127.0.0.1", "::1"],
    days: Annotated[int, typer.Option(min=1, max=MAX_DAYS, help="How long the certificates are good.")] = 30,
) -> None:
    """Make ca.pem, server.pem and client.pem with their keys, *-key.pem.

    An authority that is there already is kept: called again, new certificates take the place of the old ones, and those
    who trust the authority trust them, too.
    """
    try:
        made = make_certificates(folder, name, days)
    except (OSError, ValueError, TypeError) as error:
        typer.echo(f"sluice: {folder}: {getattr(error, 'strerror', None) or error}", err=True)
        raise typer.Exit(1) from error
    for path in made:
        typer.echo(str(path))
