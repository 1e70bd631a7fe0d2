"""Delete files, batches and lines that nobody deletes any more: expired, not completed, or left by a process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from service.storage.responses.sql.content import delete_marked, mark
from service.storage.responses.sql.database import SqlDatabase
from service.storage.responses.sql.deleted_lines import LEFT, delete_results, delete_unanswered

_UPLOAD_NS: Final = 3_600_000_000_000  # after which a file or batch that is not complete is deleted
_BATCHES: Final = "is_complete = 0 AND created_ns <= ?"
_FILES: Final = "expires_ns != 0 AND expires_ns <= ? OR is_complete = 0 AND created_ns <= ?"


def delete_left(database: SqlDatabase, now_ns: int) -> Iterator[int]:
    """Delete in short transactions, each a call of the iterator, which yields the number of deleted files and batches.

    A file at its own time of expiry is deleted with the lines whose results it has.
    """
    for key in database.rows(LEFT):
        for _ in delete_unanswered(database, *key):
            yield 0
    files = f"SELECT owner, id, batch, is_of_errors FROM files WHERE {_FILES}"  # noqa: S608  constants
    for owner, file_id, batch_id, is_of_errors in database.rows(files, (now_ns, now_ns - _UPLOAD_NS)):
        with database.transaction() as execute:
            values = (owner, file_id, now_ns, now_ns - _UPLOAD_NS)
            if execute(f"SELECT 1 FROM files WHERE owner = ? AND id = ? AND ({_FILES})", values).fetchone() is None:  # noqa: S608  constants
                continue
            mark(execute, "files", owner, file_id)
        if batch_id:
            for _ in delete_results(database, owner, batch_id, is_of_errors=bool(is_of_errors)):
                yield 0
        yield from _delete(database, "files", owner, file_id)
    batches = f"SELECT owner, id FROM batches WHERE {_BATCHES}"  # noqa: S608  constants
    for key in database.rows(batches, (now_ns - _UPLOAD_NS,)):
        with database.transaction() as execute:
            values = (*key, now_ns - _UPLOAD_NS)
            if execute(f"SELECT 1 FROM batches WHERE owner = ? AND id = ? AND {_BATCHES}", values).fetchone() is None:  # noqa: S608  constants
                continue
            mark(execute, "batches", *key)
        yield from _delete(database, "batches", *key)


def _delete(database: SqlDatabase, table: str, owner: str, row_id: str) -> Iterator[int]:
    """Delete a marked row with its content."""
    database.has_traces = True
    for _ in delete_marked(database, table, owner, row_id):
        yield 0
    yield 1
