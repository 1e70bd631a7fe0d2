"""Delete a file, a batch or a conversation with its content from an SQL database, in transactions that are short.

The row is marked first, so that it does not exist for clients. If its content is not deleted then, a purge does it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from service.storage.responses.sql.database import Execute, SqlDatabase

MAX_ROWS: Final = 512  # of one transaction
_MAX_BYTES: Final = 4 << 20  # likewise, unless one row has more


class _Content(NamedTuple):
    """The content of a table's rows: its table, the column with the row's id, the size of a part, and the mark."""

    table: str
    column: str
    size: str
    mark: tuple[str, ...]


_CONTENT: Final = {
    "conversations": _Content("items", "conversation", "length(item)", ("updated_ns = 0",)),
    "batches": _Content(
        "batch_lines", "batch", "length(request) + length(result)", ("is_complete = 0", "created_ns = 0")
    ),
    "files": _Content("file_parts", "file", "length(content)", ("is_complete = 0", "expires_ns = 1")),
}
MARKED_FILE: Final = " AND ".join(_CONTENT["files"].mark)
"""The condition of a marked row of `files`."""
TABLES: Final = frozenset(_CONTENT)
"""The tables whose rows have content in another one."""


def mark(execute: Execute, table: str, owner: str, row_id: str) -> None:
    """Mark a row as deleted, as a part of a transaction."""
    changes = ", ".join(_CONTENT[table].mark)
    execute(f"UPDATE {table} SET {changes} WHERE owner = ? AND id = ?", (owner, row_id))  # noqa: S608  constants


def delete_marked(database: SqlDatabase, table: str, owner: str, row_id: str) -> Iterator[None]:
    """Delete a marked row and its content in short transactions, each a call of the iterator.

    Nothing more is deleted if a new row with the same id has replaced it.
    """
    content, key = _CONTENT[table], (owner, row_id)
    marked = f"{table} WHERE owner = ? AND id = ? AND {' AND '.join(content.mark)}"
    parts = f"{content.table} WHERE owner = ? AND {content.column} = ?"
    sizes = f"SELECT position, {content.size} FROM {parts} ORDER BY position LIMIT {MAX_ROWS}"  # noqa: S608  constants
    last: int | None = 0
    while last is not None:
        with database.transaction() as execute:
            if execute(f"SELECT 1 FROM {marked}", key).fetchone() is None:  # noqa: S608  constants
                return
            last = last_of_step(execute(sizes, key).fetchall())
            if last is None:
                execute(f"DELETE FROM {marked}", key)  # noqa: S608  constants
            else:
                execute(f"DELETE FROM {parts} AND position <= ?", (*key, last))  # noqa: S608  constants
        yield


def last_of_step(parts: list[tuple[int, int]]) -> int | None:
    """Return the position of the last part to delete in one transaction, by the parts' positions and sizes."""
    last, num_bytes = None, 0
    for position, size in parts:
        num_bytes += size
        if last is not None and num_bytes > _MAX_BYTES:
            break
        last = position
    return last
