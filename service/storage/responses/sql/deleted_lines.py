"""Delete lines of a batch in an SQL database, with what they count against the limits, in short transactions."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from service.storage.responses.batch_port import BatchStatus, LineState
from service.storage.responses.sql.content import MARKED_FILE, MAX_ROWS, last_of_step
from service.storage.responses.sql.database import SqlDatabase

_CANCELLED: Final = f"SELECT 1 FROM batches WHERE owner = ? AND id = ? AND status = {BatchStatus.CANCELLED:d}"  # noqa: S608  constants
_MARKED: Final = f"SELECT 1 FROM files WHERE owner = ? AND batch = ? AND is_of_errors = ? AND {MARKED_FILE}"  # noqa: S608  constants
LEFT: Final = f"""
    SELECT owner, id FROM batches WHERE status = {BatchStatus.CANCELLED:d} AND is_complete = 1 AND EXISTS (
        SELECT 1 FROM batch_lines WHERE owner = batches.owner AND batch = batches.id AND state = {LineState.WAITING:d}
    )
"""  # noqa: S608  constants
"""The owners and ids of cancelled batches with lines that are left."""


def delete_unanswered(database: SqlDatabase, owner: str, batch_id: str) -> Iterator[None]:
    """Delete the lines of a cancelled batch that have no result, each call of the iterator some of them."""
    yield from _delete(database, owner, batch_id, [LineState.WAITING], (_CANCELLED, (owner, batch_id)))


def delete_results(database: SqlDatabase, owner: str, batch_id: str, *, is_of_errors: bool) -> Iterator[None]:
    """Delete the lines whose results a marked file has, each call of the iterator some of them."""
    # The lines without a result of a batch that has ended are expired.
    states = (LineState.FAILED, LineState.EXPIRED, LineState.WAITING) if is_of_errors else (LineState.SUCCEEDED,)
    yield from _delete(database, owner, batch_id, states, (_MARKED, (owner, batch_id, int(is_of_errors))))


def _delete(
    database: SqlDatabase,
    owner: str,
    batch_id: str,
    states: Collection[LineState],
    condition: tuple[str, tuple[str | int, ...]],
) -> Iterator[None]:
    """Delete lines of these states in transactions that each find that the condition, a query, has a row."""
    overhead = database.seal_overhead
    lines = f"batch_lines WHERE owner = ? AND batch = ? AND state IN ({', '.join('?' * len(states))})"
    size = "length(request) - ? + CASE WHEN length(result) > 0 THEN length(result) - ? ELSE 0 END"
    key = (owner, batch_id, *map(int, states))
    query, values = condition
    while True:
        with database.transaction() as execute:
            if execute(query, values).fetchone() is None:
                return
            sizes = f"SELECT position, {size} FROM {lines} ORDER BY position LIMIT {MAX_ROWS}"  # noqa: S608  constants
            found = execute(sizes, (overhead, overhead, *key)).fetchall()
            last = last_of_step(found)
            if last is None:
                return
            num_bytes = sum(each for position, each in found if position <= last)
            execute(f"DELETE FROM {lines} AND position <= ?", (*key, last))  # noqa: S608  constants
            execute(
                "UPDATE batches SET num_bytes = num_bytes - ? WHERE owner = ? AND id = ?", (num_bytes, owner, batch_id)
            )
            database.has_traces = True
        yield
