"""The uploaded files in an SQL database, and the files that stand for the results of batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from service.storage.responses.batch_port import BatchLimits, FileRecord, FileStore, creation_of
from service.storage.responses.port import StoreFailed, StoreLimit, TooLarge, UnknownItem
from service.storage.responses.sql.content import delete_marked, mark
from service.storage.responses.sql.database import Execute, SqlDatabase
from service.storage.responses.sql.deleted_batches import SqlDeletedBatches
from service.storage.responses.sql.deleted_lines import delete_results

_COLUMNS: Final = "owner, id, created_ns, filename, num_bytes, expires_ns, batch, is_of_errors, results_bytes"
_PRESENT: Final = (
    "files WHERE owner = :owner AND is_complete = 1 AND created_ns > :oldest AND (expires_ns = 0 OR expires_ns > :now)"
)
_TOTAL: Final = (
    "SELECT CAST(coalesce(sum(num_bytes), 0) AS BIGINT) FROM "
    "(SELECT owner, num_bytes FROM files UNION ALL SELECT owner, num_bytes FROM batches) AS stored"
)
_OPEN: Final = "files WHERE owner = ? AND id = ? AND is_complete = 0"


class SqlUploads(FileStore):
    """A `FileStore` in a database. Methods that take `execute` are parts of its transaction."""

    def __init__(
        self,
        database: SqlDatabase,
        limits: BatchLimits,
        max_age_s: float,
        now_ns: Callable[[], int],
        deleted: SqlDeletedBatches,
    ) -> None:
        self._database = database
        self._deleted = deleted
        self._limits = limits
        self._max_age_s = max_age_s
        self._now_ns = now_ns

    def begin(self, file: FileRecord) -> None:
        with self._database.transaction() as execute:
            query = "SELECT count(*) FROM files WHERE owner = ? AND batch = ''"
            (num_files,) = execute(query, (file.owner,)).fetchone()
            if num_files >= self._limits.max_files:
                limit = self._limits.max_files
                text = f"{num_files} files are stored; a key may store {limit}"
                raise StoreLimit(text, "batches.max_files_per_key", limit)
            self.insert(execute, file, is_complete=False)

    def insert(self, execute: Execute, file: FileRecord, *, is_complete: bool) -> None:
        """Insert a file without content."""
        execute(
            f"INSERT INTO files ({_COLUMNS}, is_complete) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608  constants
            (
                file.owner, file.id, file.created_ns,
                self._database.sealed(file.filename.encode(), f"{file.owner}\0{file.id}\0filename"),
                file.num_bytes, file.expires_ns, file.batch_id, int(file.is_of_errors), file.results_bytes,
                int(is_complete),
            ),
        )  # fmt: skip

    def append(self, owner: str, file_id: str, data: bytes) -> None:
        with self._database.transaction() as execute:
            row = execute(f"SELECT num_bytes, num_parts FROM {_OPEN}", (owner, file_id)).fetchone()  # noqa: S608  constants
            if row is None:
                raise StoreFailed("the upload was not continued in time")
            num_bytes, num_parts = row
            if num_bytes + len(data) > self._limits.max_file_bytes:
                limit = self._limits.max_file_bytes
                raise TooLarge(f"a file may have {limit} bytes", "batches.max_file_bytes", limit)
            self.check_capacity(execute, owner, len(data))
            sealed = self._database.sealed(data, f"{owner}\0{file_id}\0{num_parts}")
            execute("INSERT INTO file_parts VALUES (?, ?, ?, ?)", (owner, file_id, num_parts, sealed))
            execute(
                "UPDATE files SET num_bytes = num_bytes + ?, num_parts = num_parts + 1 WHERE owner = ? AND id = ?",
                (len(data), owner, file_id),
            )

    def check_capacity(self, execute: Execute, owner: str, num_new: int) -> None:
        """Raise StoreLimit if `num_new` bytes more exceed the limit of the owner, or of all owners."""
        (num_own,) = execute(f"{_TOTAL} WHERE owner = ?", (owner,)).fetchone()
        if num_own + num_new > self._limits.max_bytes_per_owner:
            limit = self._limits.max_bytes_per_owner
            text = f"files and batches have {num_own + num_new} bytes; a key may store {limit}"
            raise StoreLimit(text, "batches.max_bytes_per_key", limit)
        (num_all,) = execute(_TOTAL).fetchone()
        if num_all + num_new > self._limits.max_bytes:
            limit = self._limits.max_bytes
            text = f"the store of files and batches is full; its limit is {limit} bytes"
            raise StoreLimit(text, "batches.max_bytes", limit)

    def complete(self, owner: str, file_id: str, lifetime_s: int | None = None) -> FileRecord:
        with self._database.transaction() as execute:
            execute("UPDATE files SET is_complete = 1 WHERE owner = ? AND id = ?", (owner, file_id))
            if lifetime_s is not None:
                lifetime_ns = lifetime_s * 1_000_000_000
                query = "UPDATE files SET expires_ns = created_ns + ? WHERE owner = ? AND id = ?"
                execute(query, (lifetime_ns, owner, file_id))
        file = self.get(owner, file_id)
        if file is None:
            raise StoreFailed("the upload was not continued in time")
        return file

    def get(self, owner: str, file_id: str) -> FileRecord | None:
        row = self._database.row(f"SELECT {_COLUMNS} FROM {_PRESENT} AND id = :id", self._values(owner, id=file_id))  # noqa: S608  constants
        return None if row is None else self._record(row)

    def list(
        self, owner: str, max_files: int, after: str = "", *, descending: bool = False, results: bool | None = None
    ) -> Sequence[FileRecord]:
        query = f"SELECT {_COLUMNS} FROM {_PRESENT}"  # noqa: S608  constants
        values = self._values(owner, most=max_files)
        if results is not None:
            query += f" AND batch {'!=' if results else '='} ''"
        if after:
            query += f" AND (created_ns, id) {'<' if descending else '>'} (:created, :after)"
            values |= {"created": self._creation_of(owner, after), "after": after}
        order = "DESC" if descending else "ASC"
        rows = self._database.rows(f"{query} ORDER BY created_ns {order}, id {order} LIMIT :most", values)
        return [self._record(row) for row in rows]

    def _creation_of(self, owner: str, file_id: str) -> int:
        """Return the time of a file's creation, also if it was deleted. Raise UnknownItem."""
        row = self._database.row("SELECT created_ns FROM files WHERE owner = ? AND id = ?", (owner, file_id))
        if row is None:  # files of results are created at the end of their batch
            batch_id = file_id.removesuffix("-output").removesuffix("-errors")
            query = "SELECT ended_ns FROM batches WHERE owner = ? AND id = ? AND ended_ns != 0"
            row = self._database.row(query, (owner, batch_id))
            if row is None and (times := self._deleted.times(owner, batch_id)) is not None and times.ended_ns:
                return times.ended_ns
        created_ns = creation_of(file_id) if row is None else int(row[0])
        if created_ns is None:
            raise UnknownItem
        return created_ns

    def record_size(self, owner: str, file_id: str, results_bytes: int) -> None:
        with self._database.transaction() as execute:
            query = "UPDATE files SET results_bytes = ? WHERE owner = ? AND id = ? AND batch != ''"
            execute(query, (results_bytes, owner, file_id))

    def part(self, owner: str, file_id: str, index: int) -> bytes | None:
        if self.get(owner, file_id) is None:
            return None
        query = "SELECT content FROM file_parts WHERE owner = ? AND file = ? AND position = ?"
        row = self._database.row(query, (owner, file_id, index))
        return None if row is None else self._database.opened(row[0], f"{owner}\0{file_id}\0{index}")

    def delete(self, owner: str, file_id: str) -> bool:
        *_, was_there = self.delete_steps(owner, file_id)
        return was_there

    def delete_steps(self, owner: str, file_id: str) -> Iterator[bool]:
        key = (owner, file_id)
        with self._database.transaction() as execute:
            file = self.get(*key)
            mark(execute, "files", *key)
        if file is not None and file.batch_id:
            for _ in delete_results(self._database, owner, file.batch_id, is_of_errors=file.is_of_errors):
                yield True
        for _ in delete_marked(self._database, "files", *key):
            yield file is not None
        self._database.erase()
        yield file is not None

    def _values(self, owner: str, **others: Any) -> dict[str, Any]:
        """Return the values of a query for files that are present."""
        now_ns = self._now_ns()
        return {"owner": owner, "now": now_ns, "oldest": now_ns - round(self._max_age_s * 1e9), **others}

    def _record(self, row: Sequence[Any]) -> FileRecord:
        owner, file_id, created_ns, filename, num_bytes, expires_ns, batch_id, is_of_errors, results_bytes = row
        name = self._database.opened(filename, f"{owner}\0{file_id}\0filename").decode()
        return FileRecord(
            owner, file_id, created_ns, name, num_bytes, expires_ns, batch_id, bool(is_of_errors), results_bytes
        )
