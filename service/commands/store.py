"""`sluice store`: check, migrate, purge or import the file or database of stored responses and conversations."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from service.settings.stored_response_settings import StoredResponseSettings
from service.storage.responses.port import StoreFailed, StoreLimits
from service.storage.responses.postgres import check as postgres_check
from service.storage.responses.postgres.connection import Connection
from service.storage.responses.postgres.database import PostgresDatabase
from service.storage.responses.postgres.file_import import import_rows
from service.storage.responses.postgres.postgres_store import PostgresStore
from service.storage.responses.seal import Seal
from service.storage.responses.sql.store import SqlStore
from service.storage.responses.sqlite import check as sqlite_check
from service.storage.responses.sqlite.locked_file import locked_file
from service.storage.responses.sqlite.sqlite_store import SqliteStore

_DEFAULTS: Final = StoredResponseSettings()
_CONNECT_S: Final = 10.0


def _is_url(store: str) -> bool:
    return store.startswith(("postgresql://", "postgres://"))


def _check(options: argparse.Namespace, seal: Seal | None) -> list[str]:
    """Return a description of the store. Raise StoreFailed with the first problem."""
    if _is_url(options.store):
        return postgres_check.check(options.store, options.postgres_password_file, seal)
    return sqlite_check.check(Path(options.store), seal)


def _opened(options: argparse.Namespace, seal: Seal | None, max_age_s: float) -> SqlStore:
    """Open a store that exists, with the newest schema. Raise StoreFailed."""
    limits = StoreLimits(max_age_s, _DEFAULTS.max_bytes_per_key, _DEFAULTS.max_bytes)
    if _is_url(options.store):
        return PostgresStore(
            options.store, limits, seal=seal, password_file=options.postgres_password_file, timeout_s=_CONNECT_S
        )
    file = Path(options.store)
    if not file.is_file():
        raise StoreFailed(f"{file} is not a file")
    return SqliteStore(file, limits, seal=seal)


def _import(options: argparse.Namespace, seal: Seal | None) -> list[str]:
    """Import the file into the database, and return what was imported. Raise StoreFailed."""
    if not _is_url(options.store):
        raise StoreFailed(f"{options.store} is not a URL of a PostgreSQL database")
    with locked_file(options.file) as connection:
        description = sqlite_check.checked(connection, options.file, seal)
        if seal is not None and connection.execute("SELECT canary FROM seal").fetchone() == (b"",):
            raise StoreFailed(f"{options.file} is not encrypted, although there is a key; import it without one")
        database = PostgresDatabase(Connection(options.store, options.postgres_password_file, _CONNECT_S), seal)
        try:
            num_rows = import_rows(connection.execute, database)
        finally:
            database.close()
    return [f"imported into {database.name}: {num_rows} rows", *description]


def _run(options: argparse.Namespace) -> list[str]:
    """Run the command, and return its lines of output. Raise StoreFailed."""
    seal = None if options.encryption_key_file is None else Seal.from_file(options.encryption_key_file)
    if options.command == "check":
        return _check(options, seal)
    if options.command == "import":
        return _import(options, seal)
    store = _opened(options, seal, options.max_age_s if options.command == "purge" else _DEFAULTS.max_age_s)
    try:
        if options.command == "migrate":
            return [f"{store.name} has the newest schema version"]
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
        ("check", "verify the store, its schema and each encrypted value; changes nothing"),
        ("migrate", "bring the store to this release's schema, as a start of the service does"),
        ("purge", "delete what has expired, or everything of one key"),
        ("import", "copy everything from a file into a PostgreSQL database, all or nothing; the file is not changed"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        if name == "import":
            command.add_argument("file", type=Path, help="the file, which no service may use")
        command.add_argument("store", help="the setting stored_responses.file or stored_responses.postgres_url")
        command.add_argument(
            "--postgres-password-file", type=Path, help="the setting of that name, if the URL has no password"
        )
        command.add_argument("--encryption-key-file", type=Path, help="the setting of that name, if content has a key")
        if name == "purge":
            command.add_argument("--max-age-s", type=float, default=_DEFAULTS.max_age_s, help="age of what has expired")
            command.add_argument("--owner", help="id of a key; empty for clients without one")
    try:
        lines = _run(parser.parse_args(arguments))
    except StoreFailed as error:
        sys.stderr.write(f"sluice: {error}\n")
        return 1
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
