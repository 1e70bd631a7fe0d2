"""The positions of deleted items of conversations in an SQL database, so that a listing continues after them."""

from __future__ import annotations

import hashlib
from typing import Final

from service.storage.responses.sql.database import Execute, SqlDatabase

MAX_DELETED: Final = 256
"""The number of positions that are kept of one conversation: those of the items that were deleted last."""

_OF: Final = "owner = ? AND conversation = ?"
_DIGEST_SIZE: Final = 16  # bytes
_NUM_BYTES: Final = _DIGEST_SIZE + 8  # that a position counts: less than its item did


class SqlDeletedItems:
    """The positions, by digests of ids: nothing else is kept of an item."""

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database

    def add(self, execute: Execute, owner: str, conversation_id: str, item_id: str, position: int) -> None:
        """Add the position of an item that is deleted, as a part of a transaction."""
        of = (owner, conversation_id)
        execute(
            "INSERT INTO deleted_items (owner, conversation, digest, position, num_bytes) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (owner, conversation, digest) DO UPDATE SET position = excluded.position",
            (*of, _digest(*of, item_id), position, _NUM_BYTES),
        )
        oldest = f"SELECT number FROM deleted_items WHERE {_OF} ORDER BY number DESC LIMIT 1 OFFSET {MAX_DELETED}"  # noqa: S608  constants
        execute(f"DELETE FROM deleted_items WHERE {_OF} AND number <= ({oldest})", (*of, *of))  # noqa: S608  constants

    def position(self, owner: str, conversation_id: str, item_id: str) -> int | None:
        """Return the position that a deleted item had; None if it is unknown."""
        query = f"SELECT position FROM deleted_items WHERE {_OF} AND digest = ?"  # noqa: S608  constants
        of = (owner, conversation_id)
        row = self._database.row(query, (*of, _digest(*of, item_id)))
        return None if row is None else int(row[0])


def _digest(owner: str, conversation_id: str, item_id: str) -> bytes:
    return hashlib.blake2b(f"{owner}\0{conversation_id}\0{item_id}".encode(), digest_size=_DIGEST_SIZE).digest()
