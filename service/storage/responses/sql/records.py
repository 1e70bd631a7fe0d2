"""The rows of responses in an SQL database: read, insert, and delete the oldest ones for the limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from service.storage.responses.port import ResponseRecord, StoreLimit, StoreLimits
from service.storage.responses.sql.database import Execute, SqlDatabase

_ALWAYS_FITS: Final = 4096  # bytes
_COLUMNS: Final = "created_ns, previous_id, request, response"
_CONTENT: Final = ("request", "response", "client_data", "events")
_PRESENT: Final = "responses WHERE owner = ? AND id = ? AND created_ns > ?"


class SqlRecords:
    """The rows of a database. Methods that take `execute` are parts of its transaction."""

    def __init__(self, database: SqlDatabase, limits: StoreLimits, now_ns: Callable[[], int]) -> None:
        self._database = database
        self._limits = limits
        self._now_ns = now_ns

    def oldest_ns(self) -> int:
        """Return the instant before which responses have expired."""
        return self._now_ns() - round(self._limits.max_age_s * 1e9)

    def exists(self, owner: str, response_id: str) -> bool:
        """Return whether there is such a record, which has not expired."""
        return self._database.row(f"SELECT 1 FROM {_PRESENT}", (owner, response_id, self.oldest_ns())) is not None  # noqa: S608  constants

    def read(self, owner: str, response_id: str, *, is_whole: bool = True) -> ResponseRecord | None:
        """Return a record that has not expired. If it isn't `is_whole`, it lacks `client_data` and `events`."""
        columns = f"{_COLUMNS}, client_data, events" if is_whole else _COLUMNS
        row = self._database.row(f"SELECT {columns} FROM {_PRESENT}", (owner, response_id, self.oldest_ns()))  # noqa: S608  constants
        if row is None:
            return None
        created_ns, previous_id, *stored = row
        content: dict[str, Any] = {
            name: self._database.opened(value, f"{owner}\0{response_id}\0{name}") if value or name != "events" else b""
            for name, value in zip(_CONTENT, stored, strict=False)
        }
        return ResponseRecord(owner, response_id, created_ns, previous_id, **content)

    def delete_expired(self, execute: Execute, owner: str, response_id: str) -> None:
        """Delete a record that has expired, but was not purged yet, so that its id is free."""
        query = "DELETE FROM responses WHERE owner = ? AND id = ? AND created_ns <= ?"
        if execute(query, (owner, response_id, self.oldest_ns())).rowcount:
            self._database.note_deletion()

    def opened_request(self, owner: str, response_id: str, stored: bytes) -> bytes:
        """Return the request of a record from the value in its row."""
        return self._database.opened(stored, f"{owner}\0{response_id}\0request")

    def insert(self, execute: Execute, record: ResponseRecord) -> None:
        """Insert a record. Raise StoreLimit."""
        self.make_room(execute, record.owner, record.id, record.num_bytes, _size(record))
        execute(
            f"INSERT INTO responses (owner, id, {_COLUMNS}, client_data, events, num_bytes) "  # noqa: S608  constants
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                record.owner, record.id, record.created_ns, record.previous_id,
                *(self._sealed(record, name) for name in _CONTENT),
                record.num_bytes,
            ),
        )  # fmt: skip

    def change(self, execute: Execute, record: ResponseRecord) -> None:
        """Replace the response and the events of a record. Raise StoreLimit."""
        key = (record.owner, record.id)
        (num_before,) = execute("SELECT num_bytes FROM responses WHERE owner = ? AND id = ?", key).fetchone()
        num_new = record.num_bytes - num_before
        if num_new > _ALWAYS_FITS:  # a few bytes more always fit, so that any response can end with an error
            self.make_room(execute, record.owner, record.id, num_new, _size(record))
        execute(
            "UPDATE responses SET response = ?, events = ?, num_bytes = ? WHERE owner = ? AND id = ?",
            (self._sealed(record, "response"), self._sealed(record, "events"), record.num_bytes, *key),
        )

    def make_room(self, execute: Execute, owner: str, kept_id: str, num_new: int, size: str) -> None:
        """Delete the owner's oldest records until `num_new` bytes more fit.

        The record `kept_id` and those of unfinished jobs are not deleted. Raise StoreLimit, with `size` as the
        beginning of its text, if they don't fit.
        """
        limits = self._limits
        (total,) = execute("SELECT CAST(coalesce(sum(num_bytes), 0) AS BIGINT) FROM usage").fetchone()
        row = execute("SELECT num_bytes FROM usage WHERE owner = ?", (owner,)).fetchone()
        excess = (row[0] if row is not None else 0) + num_new - limits.max_bytes_per_owner
        deleted: list[str] = []
        if excess > 0:
            oldest = execute(
                "SELECT id, num_bytes FROM responses WHERE owner = ? AND id != ? AND NOT EXISTS "
                "(SELECT 1 FROM jobs WHERE jobs.owner = responses.owner AND jobs.id = responses.id) "
                "ORDER BY created_ns",
                (owner, kept_id),
            )
            for response_id, num_bytes in oldest:
                deleted.append(response_id)
                excess -= num_bytes
                total -= num_bytes
                if excess <= 0:
                    break
            oldest.close()
        if excess > 0:
            limit = limits.max_bytes_per_owner
            raise StoreLimit(f"{size}; a key may store {limit}", "stored_responses.max_bytes_per_key", limit)
        if total + num_new > limits.max_bytes:
            text = f"the store of responses is full; its limit is {limits.max_bytes} bytes"
            raise StoreLimit(text, "stored_responses.max_bytes", limits.max_bytes)
        for response_id in deleted:
            execute("DELETE FROM responses WHERE owner = ? AND id = ?", (owner, response_id))
            self._database.note_deletion()

    def _sealed(self, record: ResponseRecord, name: str) -> bytes:
        """Return a field of a record as it is stored. Missing events are stored as nothing."""
        value: bytes = getattr(record, name)
        if name == "events" and not value:
            return b""
        return self._database.sealed(value, f"{record.owner}\0{record.id}\0{name}")


def _size(record: ResponseRecord) -> str:
    """Return the size of a record as text."""
    return f"the response and its request have {record.num_bytes} bytes"
