"""The lines of batches in an SQL database, for the processes that answer them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from service.storage.responses.batch_port import (
    BatchRecord,
    BatchStatus,
    EndedLine,
    Line,
    LineKey,
    LineResult,
    LineState,
    NewLine,
)
from service.storage.responses.port import MAX_LEASE_S, StoreLimit
from service.storage.responses.sql.content import MARKED_FILE
from service.storage.responses.sql.database import Execute, SqlDatabase
from service.storage.responses.sql.uploads import SqlUploads

# A lease that ends too late was dated by a clock that was set back, or before the machine was started again.
_HELD: Final = "lease_ns > :now AND lease_ns <= :latest"
_HAS_HOLDER: Final = "holder > '' AND holder != ''"  # a range, and the condition of the index of held lines
_WAITING: Final = f"owner = batches.owner AND batch = batches.id AND state = 0 AND NOT ({_HELD})"
_NEXT: Final = f"""
    SELECT owner, id, caller FROM batches
    WHERE status = {BatchStatus.IN_PROGRESS:d} AND is_complete = 1
        AND (SELECT position FROM batch_lines WHERE {_WAITING} ORDER BY position LIMIT 1) IS NOT NULL
    ORDER BY (SELECT count(*) FROM batch_lines AS held
              WHERE {_HAS_HOLDER} AND held.owner || '' = batches.owner AND {_HELD}),
             created_ns, id
    LIMIT 1
"""  # noqa: S608  constants; `|| ''` keeps SQLite from searching all lines of the owner, ORDER BY PostgreSQL
_FIRST: Final = f"""
    SELECT position, request, num_claims FROM batch_lines
    WHERE owner = :owner AND batch = :batch AND state = 0 AND NOT ({_HELD}) ORDER BY position LIMIT 1
"""  # noqa: S608  constants
_KEY: Final = "owner = ? AND batch = ? AND position = ?"


class SqlLines:
    """The lines of a database. Methods that take `execute` are parts of its transaction."""

    def __init__(self, database: SqlDatabase, uploads: SqlUploads, now_ns: Callable[[], int]) -> None:
        self._database = database
        self._uploads = uploads
        self._now_ns = now_ns

    def insert(self, execute: Execute, owner: str, batch_id: str, begin: int, lines: Sequence[NewLine]) -> None:
        """Insert lines with the indices from `begin` on."""
        rows = []
        for index, line in enumerate(lines, begin):
            key = (owner, batch_id, index)
            state = LineState.FAILED if line.error else LineState.WAITING
            result = self._sealed(key, "result", line.error) if line.error else b""
            rows.append((*key, int(state), self._sealed(key, "request", line.request), result))
        for row in rows:
            execute(
                "INSERT INTO batch_lines (owner, batch, position, state, request, result) VALUES (?, ?, ?, ?, ?, ?)",
                row,
            )

    def results(
        self, batch: BatchRecord, after: int, states: Collection[LineState], max_lines: int
    ) -> Sequence[EndedLine]:
        """Return lines of these states after an index, in order, without those of files that are being deleted."""
        owner, batch_id = batch.owner, batch.id
        marked = f"SELECT is_of_errors FROM files WHERE owner = ? AND id IN (?, ?) AND {MARKED_FILE}"  # noqa: S608  constants
        files = [batch.results_file(is_of_errors=is_of_errors) for is_of_errors in (False, True)]
        deleted = {bool(is_of_errors) for (is_of_errors,) in self._database.rows(marked, (owner, *files))}
        chosen = {each for each in states if (each != LineState.SUCCEEDED) not in deleted}
        if batch.status == BatchStatus.EXPIRED and LineState.EXPIRED in chosen:
            chosen.add(LineState.WAITING)  # a line that has no result when its batch expires
        if not chosen:
            return []
        marks = ", ".join("?" * len(chosen))
        rows = self._database.rows(
            "SELECT position, request, state, result FROM batch_lines "  # noqa: S608  constants
            f"WHERE owner = ? AND batch = ? AND position > ? AND state IN ({marks}) ORDER BY position LIMIT ?",
            (owner, batch_id, after, *map(int, chosen), max_lines),
        )
        return [self._ended((owner, batch_id, row[0]), row) for row in rows]

    def claim(self, holder: str, lease_s: float, most: int) -> Sequence[Line]:
        """Return the next lines, which are the holder's then."""
        if self._database.row(_NEXT, self._instants()) is None:  # a look without a lock, which finds nothing mostly
            return ()
        claimed: list[Line] = []
        with self._database.transaction() as execute:
            instants = self._instants()
            while len(claimed) < most and (found := execute(_NEXT, instants).fetchone()) is not None:
                owner, batch_id, caller = found
                values = {**instants, "owner": owner, "batch": batch_id}
                index, request, num_claims = execute(_FIRST, values).fetchone()
                key = (owner, batch_id, index)
                execute(
                    f"UPDATE batch_lines SET holder = ?, lease_ns = ?, num_claims = num_claims + 1 WHERE {_KEY}",  # noqa: S608  constants
                    (holder, instants["now"] + round(lease_s * 1e9), *key),
                )
                opened = self._database.opened(request, _context(key, "request"))
                of_caller = self._database.opened(caller, f"{owner}\0{batch_id}\0caller")
                claimed.append(Line(key, opened, of_caller, num_claims + 1))
        return claimed

    def renew(self, holder: str, lease_s: float) -> Collection[LineKey]:
        """Renew the leases of the lines that the holder has, and return their keys."""
        with self._database.transaction() as execute:
            execute(
                f"UPDATE batch_lines SET lease_ns = ? WHERE holder = ? AND {_HAS_HOLDER}",  # noqa: S608  constants
                (self._now_ns() + round(lease_s * 1e9), holder),
            )
            return {
                (owner, batch_id, index)
                for owner, batch_id, index in execute(
                    f"SELECT owner, batch, position FROM batch_lines WHERE holder = ? AND {_HAS_HOLDER}",  # noqa: S608  constants
                    (holder,),
                )
            }

    def release(self, holder: str, key: LineKey, delay_s: float, *, is_counted: bool) -> None:
        """Give up a line that the holder has."""
        with self._database.transaction() as execute:
            execute(
                "UPDATE batch_lines SET holder = '', lease_ns = ?, num_claims = num_claims - ? "  # noqa: S608  constants
                f"WHERE {_KEY} AND holder = ?",
                (self._now_ns() + round(min(delay_s, MAX_LEASE_S) * 1e9), int(not is_counted), *key, holder),
            )

    def release_all(self, execute: Execute, owner: str, batch_id: str) -> None:
        """Take the lines of a batch that ends from their holders."""
        execute(
            f"UPDATE batch_lines SET holder = '' WHERE {_HAS_HOLDER} AND owner = ? AND batch = ?",  # noqa: S608  constants
            (owner, batch_id),
        )

    def finish(self, execute: Execute, holder: str, each: LineResult) -> tuple[LineState, int] | None:
        """Store a result, and return its state and size; None if the line isn't the holder's."""
        state, result = each.state, each.result
        try:
            self._uploads.check_capacity(execute, each.key[0], len(result))
        except StoreLimit:
            state, result = LineState.FAILED, each.fallback
        changed = execute(
            f"UPDATE batch_lines SET state = ?, result = ?, holder = '' WHERE {_KEY} AND holder = ? AND state = 0",  # noqa: S608  constants
            (int(state), self._sealed(each.key, "result", result), *each.key, holder),
        )
        return (state, len(result)) if changed.rowcount else None

    def _instants(self) -> dict[str, int]:
        """Return the values of the queries for the next line."""
        now_ns = self._now_ns()
        return {"now": now_ns, "latest": now_ns + round(MAX_LEASE_S * 1e9)}

    def _ended(self, key: LineKey, row: Sequence[Any]) -> EndedLine:
        index, request, state, result = row
        opened = self._database.opened(result, _context(key, "result")) if result else b""
        ended = LineState(state) if state != LineState.WAITING else LineState.EXPIRED
        return EndedLine(index, self._database.opened(request, _context(key, "request")), ended, opened)

    def _sealed(self, key: LineKey, name: str, data: bytes) -> bytes:
        return self._database.sealed(data, _context(key, name))


def _context(key: LineKey, name: str) -> str:
    """Return the context to which a value of a line is bound."""
    owner, batch_id, index = key
    return f"{owner}\0{batch_id}\0{index}\0{name}"
