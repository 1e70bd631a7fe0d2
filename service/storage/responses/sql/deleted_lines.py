"""Delete lines of a batch in an SQL database, with what they count against the limits."""

from __future__ import annotations

from collections.abc import Collection

from service.storage.responses.batch_port import LineState
from service.storage.responses.sql.database import Execute, SqlDatabase


def states_of(*, is_of_errors: bool) -> Collection[LineState]:
    """Return the states of the lines whose results a file has."""
    return (LineState.FAILED, LineState.EXPIRED) if is_of_errors else (LineState.SUCCEEDED,)


def delete_lines(
    database: SqlDatabase, execute: Execute, owner: str, batch_id: str, states: Collection[LineState]
) -> None:
    """Delete the lines of these states as a part of a transaction."""
    overhead = database.seal_overhead
    lines = f"batch_lines WHERE owner = ? AND batch = ? AND state IN ({', '.join('?' * len(states))})"
    values = (owner, batch_id, *map(int, states))
    (num_bytes,) = execute(
        "SELECT CAST(coalesce(sum(length(request) - ? + CASE WHEN length(result) > 0 THEN length(result) - ? ELSE 0 END"  # noqa: S608  constants
        f"), 0) AS BIGINT) FROM {lines}",
        (overhead, overhead, *values),
    ).fetchone()
    execute(f"DELETE FROM {lines}", values)  # noqa: S608  constants
    execute("UPDATE batches SET num_bytes = num_bytes - ? WHERE owner = ? AND id = ?", (num_bytes, owner, batch_id))
    database.note_deletion()
