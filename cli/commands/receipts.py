"""`sluice receipts`: the key that signs receipts. Errors exit with code 1 and one line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.calls.options import fail, print_json
from service.receipts.signing_key import KeyFileError, SigningKey, to_jwk

APP = typer.Typer(help="The key that signs receipts.", no_args_is_help=True, rich_markup_mode=None)

KeyFile = Annotated[Path, typer.Argument(help="The setting receipts.key_file.")]


@APP.command()
def create_key(file: KeyFile) -> None:
    """Write a new Ed25519 key to FILE, which must not exist, and print its public part as a JSON Web Key Set."""
    try:
        key = SigningKey.create(file)
    except KeyFileError as error:
        fail(str(error))
    print_json({"keys": [to_jwk(key.public_key)]})


@APP.command()
def public_key(file: KeyFile) -> None:
    """Print the public part of the key in FILE as a JSON Web Key Set."""
    try:
        key = SigningKey.from_file(file)
    except KeyFileError as error:
        fail(str(error))
    print_json({"keys": [to_jwk(key.public_key)]})
