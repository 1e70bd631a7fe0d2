"""Shared options and output functions of commands that call a server."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn, TypeAlias

import typer

from cli.calls.server import DEFAULT_URL, Server, ServerError
from process.logs.terminal import escaped_text, plain

Url: TypeAlias = Annotated[str, typer.Option(envvar="SLUICE_URL", help="The server's base URL.", show_envvar=True)]
Key: TypeAlias = Annotated[
    str,
    typer.Option(envvar="SLUICE_API_KEY", help="The API key, if the server requires one; preferably by the variable."),
]
CaFile: TypeAlias = Annotated[
    str, typer.Option(envvar="SLUICE_CA_FILE", help="CA certificates to trust, for a server with a private CA.")
]
ModelName: TypeAlias = Annotated[str, typer.Option("--model", "-m", help="The model's name; default: the first one.")]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DEFAULT: str = DEFAULT_URL


@contextmanager
def connected(url: str, key: str, ca_file: str) -> Iterator[Server]:
    """Yield a server to call. A ServerError ends the command with one line and exit code 1."""
    try:
        server = Server(url, key or None, ca_file or None)
        try:
            yield server
        finally:
            server.close()
    except ServerError as error:
        fail(str(error))
    except BrokenPipeError:  # the reader of the output has closed it
        sys.stderr.close()  # Python would report the unwritten rest
        raise typer.Exit(1) from None


def named_value(text: str) -> tuple[str, Any]:
    """Parse NAME=VALUE, with VALUE as JSON or text; an empty VALUE is None. Raise ValueError without a name or `=`."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ValueError(f"{text!r} is not NAME=VALUE")
    try:
        return name.strip(), json.loads(value) if value.strip() else None
    except ValueError:
        return name.strip(), value.strip()


def fail(text: str) -> NoReturn:
    """Print one line and end the command with exit code 1."""
    print_text(f"sluice: {text}", err=True)
    raise typer.Exit(1)


def print_text(text: str, *, nl: bool = True, err: bool = False) -> None:
    """Print text of a model or a server, without terminal control characters."""
    typer.echo(plain(text), nl=nl, err=err)


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """Print a JSON value, indented, or on one line."""
    typer.echo(escaped_text(json.dumps(value, indent=indent, ensure_ascii=False), kept="\n"))


def print_table(rows: Sequence[tuple[str, ...]]) -> None:
    """Print aligned columns; the first row is the header."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print_text("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
