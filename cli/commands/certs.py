"""`sluice certs`: development certificates, signed by a local authority.

They are not for production, because the authority's key is in the same folder. Errors exit with code 1 and one line.
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
    folder: Annotated[Path, typer.Argument(help="The folder of the files.")] = Path("certs"),
    name: Annotated[list[str], typer.Option(help="Host name or address in the server's certificate; repeatable.")] = [
        "localhost",
        "127.0.0.1",
        "::1",
    ],
    days: Annotated[int, typer.Option(min=1, max=MAX_DAYS, help="The certificates' validity in days.")] = 30,
) -> None:
    """Create ca.pem, server.pem and client.pem with their keys, *-key.pem.

    An existing authority is kept: a repeated call renews the certificates, and clients that trust the authority trust
    the new certificates too. Files that this command did not make are not overwritten.
    """
    try:
        certificates = make_certificates(folder, name, days)
    except (OSError, ValueError) as error:
        typer.echo(f"sluice: {folder}: {getattr(error, 'strerror', None) or error}", err=True)
        raise typer.Exit(1) from error
    for path in certificates:
        typer.echo(str(path))
