"""`sluice store`: check, migrate or purge the file of stored responses and conversations."""

from __future__ import annotations

import argparse
import sqlite3
import sys
from pathlib import Path
from typing import Final

from service.settings.stored_response_settings import StoredResponseSettings
from service.storage.responses.port import StoreFailed, StoreLimits
from service.storage.responses.seal import Seal
from service.storage.responses.sqlite.check import check
from service.storage.responses.sqlite.sqlite_store import SqliteStore

_DEFAULTS: Final = StoredResponseSettings()


def _opened(file: Path, seal: Seal | None, max_age_s: float) -> SqliteStore:
    """Open a file that exists, with the newest schema. Raise StoreFailed."""
    if not file.is_file():
        raise StoreFailed(f"{file} is not a file")
    return SqliteStore(file, StoreLimits(max_age_s, _DEFAULTS.max_bytes_per_key, _DEFAULTS.max_bytes), seal=seal)


def _run(options: argparse.Namespace) -> list[str]:
    """Run the command, and return its lines of output. Raise StoreFailed."""
    seal = None if options.encryption_key_file is None else Seal.from_file(options.encryption_key_file)
    if options.command == "check":
        return check(options.file, seal)
    store = _opened(options.file, seal, options.max_age_s if options.command == "purge" else _DEFAULTS.max_age_s)
    try:
        if options.command == "migrate":
            return [f"{options.file} has the newest schema version"]
        if options.owner is not None:
            return [f"deleted everything of {options.owner!r}: {store.delete_owner(options.owner)} rows"]
        return [f"deleted {store.purge()} expired responses and conversations"]
    finally:
        store.close()


def main(arguments: list[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    parser = argparse.ArgumentParser(prog="sluice store", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("check", "verify the file, its schema and each encrypted value; changes nothing"),
        ("migrate", "bring the file to this release's schema, as a start of the service does"),
        ("purge", "delete what has expired, or everything of one key, and leave nothing of it in the file"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("file", type=Path, help="the setting stored_responses.file")
        command.add_argument("--encryption-key-file", type=Path, help="the setting of that name, if the file has a key")
        if name == "purge":
            command.add_argument("--max-age-s", type=float, default=_DEFAULTS.max_age_s, help="age of what has expired")
            command.add_argument("--owner", help="id of a key; empty for clients without one")
    try:
        lines = _run(parser.parse_args(arguments))
    except (StoreFailed, sqlite3.Error) as error:
        sys.stderr.write(f"sluice: {error}\n")
        return 1
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
