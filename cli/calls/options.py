"""What commands that call a server have in common: where it is, with which key, and how they end."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn, TypeAlias

import typer

from cli.calls.server import DEFAULT_URL, Server, ServerError
from process.logs.terminal import plain, spelled

Url: TypeAlias = Annotated[str, typer.Option(envvar="SLUICE_URL", help="The server's base URL.", show_envvar=True)]
Key: TypeAlias = Annotated[
    str, typer.Option(envvar="SLUICE_API_KEY", help="The key, where the server asks for one; best by its variable.")
]
CaFile: TypeAlias = Annotated[
    str, typer.Option(envvar="SLUICE_CA_FILE", help="Certificates to trust, for a server with TLS of its own.")
]
ModelName: TypeAlias = Annotated[str, typer.Option("--model", "-m", help="The model's name; default: the first one.")]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DEFAULT: str = DEFAULT_URL


@contextmanager
def connected(url: str, key: str, ca_file: str) -> Iterator[Server]:
    """A server to call. What it raises ends the command with one line, and code 1."""
    try:
        server = Server(url, key or None, ca_file or None)
        try:
            yield server
        finally:
            server.close()
    except ServerError as error:
        fail(str(error))
    except BrokenPipeError:  # whoever read the output has gone
        sys.stderr.close()  # Python would complain of the rest
        raise typer.Exit(1) from None


def named_value(text: str) -> tuple[str, Any]:
    """NAME=VALUE, the value as JSON or else as text; None for an empty one. Raises ValueError."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ValueError(f"{text!r} is not NAME=VALUE")
    try:
        return name.strip(), json.loads(value) if value.strip() else None
    except ValueError:
        return name.strip(), value.strip()


def fail(text: str) -> NoReturn:
    """End the command with one line. Raises typer.Exit."""
    say(f"sluice: {text}", err=True)
    raise typer.Exit(1)


def say(text: str, *, nl: bool = True, err: bool = False) -> None:
    """Print what a model or a server said, without what a terminal would obey."""
    typer.echo(plain(text), nl=nl, err=err)


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """One JSON value, indented, or in one line."""
    typer.echo(spelled(json.dumps(value, indent=indent, ensure_ascii=False), kept="\n"))


def print_table(rows: Sequence[tuple[str, ...]]) -> None:
    """Columns as wide as they must be; the first row is the heads."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        say("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
