"""Import a file of stored responses into a PostgreSQL database, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from service.storage.responses.port import StoreFailed
from service.storage.responses.postgres.database import PostgresDatabase
from service.storage.responses.postgres.schema import SCHEMA
from service.storage.responses.sql.database import Execute

Rows: TypeAlias = Callable[[str], Iterable[Sequence[Any]]]


class _Table(NamedTuple):
    """A table and the columns that are imported. The others have their defaults, like those of a new row."""

    name: str
    columns: tuple[str, ...]
    is_placed: bool = False  # among the items of all conversations

    def query(self, first: int) -> str:
        """Return the query for its rows, whose positions follow `first`."""
        columns = [f"position + {first}" if self.is_placed and each == "position" else each for each in self.columns]
        return f"SELECT {', '.join(columns)} FROM {self.name}"  # noqa: S608  constants


_KEY: Final = ("owner", "id")
_KEYED: Final = ("responses", "conversations", "files", "batches")  # the other tables' rows each belong to one of these
# Each table follows those to which its rows refer. Work is imported as waiting: the process that had it is gone.
_TABLES: Final = (
    _Table(
        "responses",
        (*_KEY, "created_ns", "previous_id", "num_bytes", "request", "response", "client_data", "events"),
    ),
    _Table("jobs", (*_KEY, "created_ns", "caller", "stream", "num_claims")),
    _Table("conversations", (*_KEY, "created_ns", "updated_ns", "num_bytes", "metadata")),
    # Items get new positions in the same order, and with the same distances, which those of deleted items keep.
    _Table("items", ("position", "owner", "conversation", "id", "num_bytes", "item"), is_placed=True),
    _Table("deleted_items", ("owner", "conversation", "digest", "position", "num_bytes"), is_placed=True),
    _Table(
        "files",
        (
            *_KEY, "created_ns", "expires_ns", "filename", "num_bytes", "num_parts", "batch", "is_of_errors",
            "is_complete", "results_bytes",
        ),
    ),
    _Table("file_parts", ("owner", "file", "position", "content")),
    _Table(
        "batches",
        (
            *_KEY, "created_ns", "expires_ns", "description", "caller", "digest", "status", "ended_ns",
            "num_bytes", "num_lines", "num_succeeded", "num_failed", "is_complete",
            "results_lifetime_s",
        ),
    ),
    _Table("deleted_batches", ("owner", "digest", "created_ns", "ended_ns")),
    _Table("batch_lines", ("owner", "batch", "position", "state", "request", "result", "num_claims")),
)  # fmt: skip
_POSITIONS: Final = f"pg_get_serial_sequence('{SCHEMA}.items', 'position')"
_LAST: Final = "(SELECT max(position) FROM items), (SELECT max(position) FROM deleted_items)"  # greatest ignores NULL
_BATCH: Final = 1000  # keys that one query looks for
_EXAMPLES: Final = 3


def import_rows(rows: Rows, database: PostgresDatabase) -> int:
    """Insert all rows of a file with the newest schema, and return their number. Raise StoreFailed.

    `rows` returns the result of a query. Values are inserted as they are stored: both have the same encryption key,
    or none. The other services' writes wait until the end. If any row is there already, nothing is inserted.
    """
    with database.transaction() as execute:
        execute("SET LOCAL statement_timeout = 0")
        conflicts = [text for table in _KEYED if (text := _conflict(table, rows, execute))]
        if conflicts:
            raise StoreFailed(f"{database.name} already has {', '.join(conflicts)} of the file; nothing was imported")
        (first,) = execute(f"SELECT nextval({_POSITIONS})").fetchone()
        num_rows = sum(database.insert_all(table.name, table.columns, rows(table.query(first))) for table in _TABLES)
        execute(f"SELECT setval({_POSITIONS}, greatest(?, {_LAST}))", (first,))
        for seen in rows("SELECT seen_ns FROM clock"):
            execute("INSERT INTO clock VALUES (1, ?) ON CONFLICT (id) DO NOTHING", seen)
    return num_rows


def _conflict(table: str, rows: Rows, execute: Execute) -> str:
    """Return which of a table's rows are in the database already; empty if none is."""
    query = (
        f"SELECT owner, id FROM {table} WHERE (owner, id) IN "  # noqa: S608  constants
        "(SELECT * FROM unnest(CAST(? AS text[]), CAST(? AS text[])))"
    )
    found: list[tuple[str, str]] = []
    keys = iter(rows(f"SELECT owner, id FROM {table}"))  # noqa: S608  constants
    while batch := list(islice(keys, _BATCH)):
        found += execute(query, tuple(map(list, zip(*batch, strict=True))))
    if not found:
        return ""
    examples = ", ".join(f"{each!r} of the key {owner!r}" for owner, each in sorted(found)[:_EXAMPLES])
    more = ", …" if len(found) > _EXAMPLES else ""
    return f"{len(found)} {table} ({examples}{more})"
