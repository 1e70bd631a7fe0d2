"""The times of deleted batches in an SQL database, so that a listing continues after them."""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

from service.storage.responses.batch_port import BatchRecord
from service.storage.responses.sql.database import Execute, SqlDatabase

MAX_DELETED: Final = 256
"""The number of batches of one owner that are remembered: those that were deleted last."""

_DIGEST_SIZE: Final = 16  # bytes


class BatchTimes(NamedTuple):
    """The creation and the end of a batch; `ended_ns` is 0 if it had not ended."""

    created_ns: int
    ended_ns: int


class SqlDeletedBatches:
    """The times, by digests of ids: nothing else is kept of a batch, and nothing longer than batches are."""

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database

    def add(self, execute: Execute, batch: BatchRecord) -> None:
        """Add the times of a batch that is deleted, as a part of a transaction."""
        key = (batch.owner, _digest(batch.owner, batch.id))
        execute("DELETE FROM deleted_batches WHERE owner = ? AND digest = ?", key)
        execute(
            "INSERT INTO deleted_batches (owner, digest, created_ns, ended_ns) VALUES (?, ?, ?, ?)",
            (*key, batch.created_ns, batch.ended_ns),
        )
        oldest = f"SELECT number FROM deleted_batches WHERE owner = ? ORDER BY number DESC LIMIT 1 OFFSET {MAX_DELETED}"  # noqa: S608  constants
        execute(f"DELETE FROM deleted_batches WHERE owner = ? AND number <= ({oldest})", (batch.owner, batch.owner))  # noqa: S608  constants

    def times(self, owner: str, batch_id: str) -> BatchTimes | None:
        """Return the times of a deleted batch; None if it is unknown."""
        query = "SELECT created_ns, ended_ns FROM deleted_batches WHERE owner = ? AND digest = ?"
        row = self._database.row(query, (owner, _digest(owner, batch_id)))
        return None if row is None else BatchTimes(*row)

    def purge(self, execute: Execute, oldest_ns: int) -> int:
        """Forget the batches that would have expired by now, and return their number."""
        return execute("DELETE FROM deleted_batches WHERE created_ns <= ?", (oldest_ns,)).rowcount


def _digest(owner: str, batch_id: str) -> bytes:
    return hashlib.blake2b(f"{owner}\0{batch_id}".encode(), digest_size=_DIGEST_SIZE).digest()
