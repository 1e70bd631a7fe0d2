"""The batches in an SQL database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from service.storage.responses.batch_port import (
    BatchLimits,
    BatchRecord,
    BatchStatus,
    BatchStore,
    EndedLine,
    FileRecord,
    Line,
    LineKey,
    LineResult,
    LineState,
    NewLine,
)
from service.storage.responses.port import StoreFailed, StoreLimit, TooLarge, UnknownItem
from service.storage.responses.sql.content import delete_marked, mark
from service.storage.responses.sql.database import Execute, SqlDatabase
from service.storage.responses.sql.deleted_batches import SqlDeletedBatches
from service.storage.responses.sql.deleted_lines import delete_unanswered
from service.storage.responses.sql.left_content import delete_left
from service.storage.responses.sql.lines import SqlLines
from service.storage.responses.sql.uploads import SqlUploads

_COLUMNS: Final = (
    "owner, id, created_ns, expires_ns, description, caller, digest, status, ended_ns, num_lines, num_succeeded, "
    "num_failed, results_lifetime_s"
)
_PRESENT: Final = "batches WHERE owner = ? AND is_complete = 1 AND created_ns > ?"
_KEY: Final = "owner = ? AND id = ?"
_LOST_UPLOAD: Final = "the batch was not continued in time, or was begun again"


class SqlBatches(BatchStore):
    """A `BatchStore` in a database. `age_ns` is the clock of expiry, `now_ns` that of leases."""

    def __init__(
        self,
        database: SqlDatabase,
        limits: BatchLimits,
        max_age_s: float,
        age_ns: Callable[[], int],
        now_ns: Callable[[], int],
    ) -> None:
        self._database = database
        self._limits = limits
        self._max_age_s = max_age_s
        self._age_ns = age_ns
        self._deleted = SqlDeletedBatches(database)
        self.files = SqlUploads(database, limits, max_age_s, age_ns, self._deleted)
        self._lines = SqlLines(database, self.files, now_ns)

    def now_ns(self) -> int:
        return self._age_ns()

    def begin(self, batch: BatchRecord) -> BatchRecord | None:
        key = (batch.owner, batch.id)
        with self._database.transaction() as execute:
            if (existing := self.get(*key)) is not None:
                return existing
            if execute(f"DELETE FROM batches WHERE {_KEY}", key).rowcount:  # noqa: S608  constants; a stream that broke
                self._database.note_deletion()
            unfinished = "SELECT count(*) FROM batches WHERE owner = ? AND status = ?"
            (num_batches,) = execute(unfinished, (batch.owner, int(BatchStatus.IN_PROGRESS))).fetchone()
            if num_batches >= self._limits.max_batches:
                limit = self._limits.max_batches
                text = f"{num_batches} batches are unfinished; a key may have {limit}"
                raise StoreLimit(text, "batches.max_batches_per_key", limit)
            execute(
                "INSERT INTO batches (owner, id, created_ns, expires_ns, description, caller, digest, status, "
                "results_lifetime_s) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *key, batch.created_ns, batch.expires_ns,
                    *(self._sealed(batch, name) for name in ("description", "caller", "digest")), int(batch.status),
                    batch.results_lifetime_s,
                ),
            )  # fmt: skip
        return None

    def append(self, owner: str, batch_id: str, lines: Sequence[NewLine], *, upload: bytes = b"") -> None:
        num_bytes = sum(len(line.request) + len(line.error) for line in lines)
        num_failed = sum(bool(line.error) for line in lines)
        with self._database.transaction() as execute:
            num_before = self._num_uploaded(execute, owner, batch_id, upload)
            if num_before is None:
                raise StoreFailed(_LOST_UPLOAD)
            if num_before + len(lines) > self._limits.max_lines:
                limit = self._limits.max_lines
                raise TooLarge(f"a batch may have {limit} requests", "batches.max_requests", limit)
            self.files.check_capacity(execute, owner, num_bytes)
            self._lines.insert(execute, owner, batch_id, num_before, lines)
            execute(
                "UPDATE batches SET num_lines = num_lines + ?, num_failed = num_failed + ?, num_bytes = num_bytes + ? "  # noqa: S608  constants
                f"WHERE {_KEY}",
                (len(lines), num_failed, num_bytes, owner, batch_id),
            )

    def complete(self, owner: str, batch_id: str, digest: bytes, *, upload: bytes = b"") -> BatchRecord:
        with self._database.transaction() as execute:
            if self._num_uploaded(execute, owner, batch_id, upload) is None:
                raise StoreFailed(_LOST_UPLOAD)
            sealed = self._database.sealed(digest, f"{owner}\0{batch_id}\0digest")
            execute(f"UPDATE batches SET is_complete = 1, digest = ? WHERE {_KEY}", (sealed, owner, batch_id))  # noqa: S608  constants
            self._end_if_done(execute, owner, batch_id)
        batch = self.get(owner, batch_id)
        if batch is None:
            raise StoreFailed(_LOST_UPLOAD)
        return batch

    def abandon(self, owner: str, batch_id: str, upload: bytes) -> Iterator[bool]:
        with self._database.transaction() as execute:
            was_there = self._num_uploaded(execute, owner, batch_id, upload) is not None
            if was_there:
                mark(execute, "batches", owner, batch_id)
        if was_there:
            for _ in delete_marked(self._database, "batches", owner, batch_id):
                yield True
            with suppress(StoreFailed):  # it is deleted
                self._database.erase()
        yield was_there

    def _num_uploaded(self, execute: Execute, owner: str, batch_id: str, upload: bytes) -> int | None:
        """Return the number of lines of an upload so far; None if it was replaced, completed or deleted."""
        query = f"SELECT num_lines, digest FROM batches WHERE {_KEY} AND is_complete = 0"  # noqa: S608  constants
        row = execute(query, (owner, batch_id)).fetchone()
        if row is None or self._digest(owner, batch_id, row[1]) != upload:
            return None
        number: int = row[0]
        return number

    def get(self, owner: str, batch_id: str) -> BatchRecord | None:
        query = f"SELECT {_COLUMNS} FROM {_PRESENT} AND id = ?"  # noqa: S608  constants
        row = self._database.row(query, (owner, self._oldest_ns(), batch_id))
        return None if row is None else self._record(row)

    def list(self, owner: str, max_batches: int, after: str = "") -> Sequence[BatchRecord]:
        query, values = f"SELECT {_COLUMNS} FROM {_PRESENT}", [owner, self._oldest_ns()]  # noqa: S608  constants
        if after:
            before = self.get(owner, after) or self._deleted.times(owner, after)
            if before is None:
                raise UnknownItem
            query += " AND (created_ns, id) < (?, ?)"
            values += [before.created_ns, after]
        rows = self._database.rows(f"{query} ORDER BY created_ns DESC, id DESC LIMIT ?", (*values, max_batches))
        return [self._record(row) for row in rows]

    def results(
        self, owner: str, batch_id: str, after: int, states: Collection[LineState], max_lines: int
    ) -> Sequence[EndedLine]:
        batch = self.get(owner, batch_id)
        if batch is None or 0 < batch.results_expire_ns <= self._age_ns():
            return []
        return self._lines.results(batch, after, states, max_lines)

    def cancel(self, owner: str, batch_id: str) -> BatchRecord | None:
        *_, batch = self.cancel_steps(owner, batch_id)
        return batch

    def cancel_steps(self, owner: str, batch_id: str) -> Iterator[BatchRecord | None]:
        with self._database.transaction() as execute:
            batch = self.get(owner, batch_id)
            if batch is not None and batch.status == BatchStatus.IN_PROGRESS:
                self._end(execute, batch, BatchStatus.CANCELLED)
        batch = self.get(owner, batch_id)
        for _ in delete_unanswered(self._database, owner, batch_id):
            yield batch
        if self._database.has_traces:
            with suppress(StoreFailed):  # they are deleted
                self._database.erase()
        yield batch

    def delete(self, owner: str, batch_id: str) -> bool:
        *_, was_there = self.delete_steps(owner, batch_id)
        return was_there

    def delete_steps(self, owner: str, batch_id: str) -> Iterator[bool]:
        key = (owner, batch_id)
        with self._database.transaction() as execute:
            batch = self.get(*key)
            mark(execute, "batches", *key)
            execute("DELETE FROM files WHERE owner = ? AND batch = ?", key)
            if batch is not None:
                self._deleted.add(execute, batch)
        for _ in delete_marked(self._database, "batches", *key):
            yield batch is not None
        self._database.erase()
        yield batch is not None

    def claim(self, holder: str, lease_s: float, most: int) -> Sequence[Line]:
        return self._lines.claim(holder, lease_s, most)

    def renew(self, holder: str, lease_s: float) -> Collection[LineKey]:
        return self._lines.renew(holder, lease_s)

    def release(self, holder: str, key: LineKey, delay_s: float, *, is_counted: bool) -> None:
        self._lines.release(holder, key, delay_s, is_counted=is_counted)

    def finish(self, holder: str, results: Sequence[LineResult]) -> None:
        with self._database.transaction() as execute:
            changed: set[tuple[str, str]] = set()
            for each in results:
                owner, batch_id, _ = each.key
                if (stored := self._lines.finish(execute, holder, each)) is not None:
                    state, num_bytes = stored
                    counter = "num_succeeded" if state == LineState.SUCCEEDED else "num_failed"
                    execute(
                        f"UPDATE batches SET {counter} = {counter} + 1, num_bytes = num_bytes + ? WHERE {_KEY}",  # noqa: S608  constants
                        (num_bytes, owner, batch_id),
                    )
                    changed.add((owner, batch_id))
            for owner, batch_id in changed:
                self._end_if_done(execute, owner, batch_id)

    def expire(self) -> int:
        rows = self._database.rows(
            "SELECT owner, id FROM batches WHERE status = ? AND is_complete = 1 AND expires_ns <= ?",
            (int(BatchStatus.IN_PROGRESS), self._age_ns()),
        )
        for key in rows:
            with self._database.transaction() as execute:
                batch = self.get(*key)
                if batch is None or batch.status != BatchStatus.IN_PROGRESS:
                    continue
                execute(f"UPDATE batches SET num_failed = num_lines - num_succeeded WHERE {_KEY}", key)  # noqa: S608  constants
                self._end(execute, batch, BatchStatus.EXPIRED)
        return len(rows)

    def purge_left(self) -> Iterator[int]:
        """Delete what nobody deletes any more in steps, each a call of the iterator, which yields a number of rows."""
        with self._database.transaction() as execute:
            num_deleted = self._deleted.purge(execute, self._oldest_ns())
        yield num_deleted
        yield from delete_left(self._database, self._age_ns())

    def _end_if_done(self, execute: Execute, owner: str, batch_id: str) -> None:
        """End a batch whose lines have all ended."""
        batch = self.get(owner, batch_id)
        if (
            batch is not None
            and batch.status == BatchStatus.IN_PROGRESS
            and batch.num_succeeded + batch.num_failed == batch.num_lines
        ):
            self._end(execute, batch, BatchStatus.COMPLETED)

    def _end(self, execute: Execute, batch: BatchRecord, status: BatchStatus) -> None:
        """End a batch, with a file for each kind of results that it has. No process holds lines of it any more."""
        now_ns = self._age_ns()
        self._lines.release_all(execute, batch.owner, batch.id)
        execute(
            f"UPDATE batches SET status = ?, ended_ns = ? WHERE {_KEY}",  # noqa: S608  constants
            (int(status), now_ns, batch.owner, batch.id),
        )
        ended = self.get(batch.owner, batch.id)
        for is_of_errors in (False, True):
            if ended is not None and (file_id := ended.results_file(is_of_errors=is_of_errors)):
                name = f"{batch.id}_{'errors' if is_of_errors else 'output'}.jsonl"
                expires_ns = ended.results_expire_ns
                file = FileRecord(
                    batch.owner, file_id, now_ns, name,
                    expires_ns=expires_ns, batch_id=batch.id, is_of_errors=is_of_errors,
                )  # fmt: skip
                self.files.insert(execute, file, is_complete=True)

    def _oldest_ns(self) -> int:
        return self._age_ns() - round(self._max_age_s * 1e9)

    def _sealed(self, batch: BatchRecord, name: str) -> bytes:
        value: bytes = getattr(batch, name)
        if name == "digest" and not value:
            return b""
        return self._database.sealed(value, f"{batch.owner}\0{batch.id}\0{name}")

    def _digest(self, owner: str, batch_id: str, stored: bytes) -> bytes:
        return self._database.opened(stored, f"{owner}\0{batch_id}\0digest") if stored else b""

    def _record(self, row: Sequence[Any]) -> BatchRecord:
        owner, batch_id, created_ns, expires_ns, description, caller, digest, status, *counts = row
        return BatchRecord(
            owner, batch_id, created_ns, expires_ns,
            self._database.opened(description, f"{owner}\0{batch_id}\0description"),
            self._database.opened(caller, f"{owner}\0{batch_id}\0caller"),
            self._digest(owner, batch_id, digest),
            BatchStatus(status), *counts,
        )  # fmt: skip
