"""The PostgreSQL database of a store: its statements, and transactions whose outcome is always known.

A transaction that writes takes one lock of the database first, so that the writes of all replicas are serialized, as
those of one SQLite file are: limits hold exactly, a job is claimed by one process, and there are no deadlocks.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, TypeVar

from service.storage.responses.port import StoreFailed, StoreUnavailable
from service.storage.responses.postgres.connection import Connection, first_line
from service.storage.responses.postgres.schema import migrate
from service.storage.responses.seal import Seal
from service.storage.responses.sql.database import Execute, SqlDatabase, Values

_LOCK: Final = 0x736C75696365  # of writes; the bytes of the name
_CLOCK: Final = "(extract(epoch FROM clock_timestamp()) * 1000000000)::bigint"
_BEGIN: Final = f"BEGIN; SELECT pg_advisory_xact_lock({_LOCK}), pg_current_xact_id()::text, {_CLOCK}"
_PLACEHOLDER: Final = re.compile(r"\?|:([a-z_]+)")

Result = TypeVar("Result")


class PostgresDatabase(SqlDatabase):
    """A database on a server, which may be lost and come back."""

    def __init__(self, connection: Connection, seal: Seal | None) -> None:
        """Create the tables, or bring them to this release's schema. Raise StoreFailed."""
        super().__init__(connection.name, seal)
        self._connection = connection
        self._is_in_transaction = False
        self._ahead_ns = 0  # by how much the server's clock is ahead of this process's running time
        try:
            with self.transaction() as execute:
                migrate(execute, self.name)
            self.check_seal()
        except BaseException:
            self._connection.drop()
            raise

    def now_ns(self) -> int:
        """Return the server's time, so that replicas agree on it. It is measured with each transaction."""
        return time.monotonic_ns() + self._ahead_ns

    def close(self) -> None:
        self._connection.drop()

    def row(self, query: str, values: Values = ()) -> Any:
        with self._translated():
            return self._reconnecting(lambda: self._execute(query, values)).fetchone()

    def rows(self, query: str, values: Values = ()) -> list[Any]:
        with self._translated():
            found: list[Any] = self._reconnecting(lambda: self._execute(query, values)).fetchall()
            return found

    @contextmanager
    def _transaction(self) -> Iterator[Execute]:
        with self._translated():
            transaction_id = self._reconnecting(self._begin)
            self._is_in_transaction = True
            try:
                yield self._execute
                self._commit(transaction_id)
            except BaseException:
                self._roll_back()
                raise
            finally:
                self._is_in_transaction = False

    def insert_all(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
        """Insert rows, one after the other, as a part of the transaction, and return their number."""
        with self._current().cursor() as cursor:
            with cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(_without_nul(row))
            return int(cursor.rowcount)

    def _erase(self) -> None:
        # The rows are gone. Their bytes are the server's to overwrite (VACUUM), in its files and its log.
        return

    def shrink(self) -> bool:
        return False  # the server's autovacuum frees the space

    def _begin(self) -> str:
        """Begin a transaction, wait until no other one writes, and return its id."""
        cursor = self._connection.get().cursor()
        try:
            cursor.execute(_BEGIN)
        except self._connection.driver.Error:
            self._connection.drop()  # it may be in a failed transaction, or at a server that has become a standby
            raise
        cursor.nextset()
        ((_, transaction_id, now_ns),) = cursor
        self._ahead_ns = now_ns - time.monotonic_ns()
        return str(transaction_id)

    def _execute(self, query: str, values: Values = ()) -> Any:
        return self._current().execute(_translated_query(query), _without_nul(values) or None, binary=True)

    def _current(self) -> Any:
        """Return the connection, which is never another one within a transaction."""
        if self._is_in_transaction and self._connection.is_lost:
            raise StoreUnavailable(f"{self.name}: the connection was lost")
        return self._connection.get()

    def _commit(self, transaction_id: str) -> None:
        """Commit, durably. Raise if the transaction is not committed, and only then."""
        try:
            status = self._current().execute("COMMIT").statusmessage
        except self._connection.driver.OperationalError:
            if not self._connection.is_lost or not self._connection.is_committed(transaction_id):
                raise
            return
        if status != "COMMIT":
            raise StoreFailed(f"{self.name}: the transaction was rolled back")

    def _roll_back(self) -> None:
        """End a transaction that failed. A connection on which that is impossible is closed."""
        if self._connection.is_lost:
            return
        try:
            self._connection.get().execute("ROLLBACK")
        except self._connection.driver.Error:
            self._connection.drop()

    def _reconnecting(self, call: Callable[[], Result]) -> Result:
        """Return the result of a call that begins something, with a new connection if the present one was lost."""
        try:
            return call()
        except self._connection.driver.OperationalError:
            if self._is_in_transaction or not self._connection.is_lost:
                raise
        return call()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise the errors of psycopg as StoreFailed, with the database's name."""
        driver = self._connection.driver
        try:
            yield
        except driver.Error as error:
            kind = StoreUnavailable if isinstance(error, driver.OperationalError) else StoreFailed
            raise kind(f"{self.name}: {first_line(error)}") from error


def _without_nul(values: Values) -> Values:
    """Return values without the character that PostgreSQL's texts can't have: no stored id has it."""
    if isinstance(values, Mapping):
        return {name: _text_without_nul(value) for name, value in values.items()}
    return [_text_without_nul(value) for value in values]


def _text_without_nul(value: Any) -> Any:
    if isinstance(value, list):
        return [_text_without_nul(each) for each in value]
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value


@cache
def _translated_query(query: str) -> str:
    """Return a statement with placeholders as psycopg has them."""
    return _PLACEHOLDER.sub(lambda match: f"%({match[1]})s" if match[1] else "%s", query)
