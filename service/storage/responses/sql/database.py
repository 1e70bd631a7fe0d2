"""The port of the SQL database of a store: statements, transactions and encrypted values.

Statements have `?` or `:name` for values, and only what SQLite and PostgreSQL have in common.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Final, Protocol, TypeAlias

from service.storage.responses.port import StoreFailed
from service.storage.responses.seal import Seal

CANARY: Final = "canary"

Values: TypeAlias = Sequence[Any] | Mapping[str, Any]


class Cursor(Protocol):
    """The result of a statement. It is read before the next statement of its transaction."""

    @property
    def rowcount(self) -> int:
        """The number of changed rows."""

    def fetchone(self) -> Any:
        """Return the next row, or None."""

    def fetchall(self) -> list[Any]:
        """Return all rows."""

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows."""

    def close(self) -> None:
        """Skip the other rows."""


Execute: TypeAlias = Callable[..., Cursor]
"""Run a statement with its values."""


class SqlDatabase(ABC):
    """A database with the tables of a store. It is used by one thread at a time. Its methods raise StoreFailed.

    It `has_traces` if deleted content was not erased from its files yet.
    """

    def __init__(self, name: str, seal: Seal | None) -> None:
        """`name` identifies the database in errors. `seal` encrypts values."""
        self.name = name
        self._seal = seal
        self._has_deleted = False  # in the transaction
        self.has_traces = False

    @abstractmethod
    def close(self) -> None:
        """Release the database."""

    @abstractmethod
    def row(self, query: str, values: Values = ()) -> Any:
        """Return the first row of a query, or None."""

    @abstractmethod
    def rows(self, query: str, values: Values = ()) -> list[Any]:
        """Return all rows of a query."""

    @contextmanager
    def transaction(self) -> Iterator[Execute]:
        """Run the block in a transaction that may write, and is rolled back if the block raises.

        No two such transactions run at the same time, in any process. `row` and `rows` in the block are parts of it.
        After a block with `note_deletion`, deleted content is erased; if that is impossible, it `has_traces`.
        """
        self._has_deleted = False
        with self._transaction() as execute:
            yield execute
        if self._has_deleted:
            with suppress(StoreFailed):  # the transaction is committed
                self.erase()

    def note_deletion(self) -> None:
        """Record that the transaction deletes content."""
        self._has_deleted = True

    def erase(self) -> None:
        """Remove deleted content from the database's files, as far as a client of the database can."""
        self.has_traces = True
        self._erase()
        self.has_traces = False

    @abstractmethod
    def shrink(self) -> bool:
        """Return some free space to the disk. Return True if more is left."""

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[Execute]:
        """Run the block in a transaction."""

    @abstractmethod
    def _erase(self) -> None:
        """Remove deleted content from the database's files."""

    @property
    def seal_overhead(self) -> int:
        """The number of bytes by which a value is longer as it is stored."""
        return 0 if self._seal is None else self._seal.OVERHEAD

    def sealed(self, data: bytes, context: str) -> bytes:
        """Return a value as it is stored."""
        return data if self._seal is None else self._seal.close(data, context)

    def opened(self, stored: bytes, context: str) -> bytes:
        """Return the value that was stored. Raise StoreFailed if it was changed or moved."""
        return stored if self._seal is None else self._seal.open(stored, context)

    def check_seal(self) -> None:
        """Raise StoreFailed if the database was created with another key, or with none while there is one."""
        row = self.row("SELECT canary FROM seal")
        if row is None:
            with self.transaction() as execute:
                canary = b"" if self._seal is None else self._seal.close(b"", CANARY)
                execute("INSERT INTO seal VALUES (1, ?) ON CONFLICT (id) DO NOTHING", (canary,))
            row = self.row("SELECT canary FROM seal")
        if self._seal is None and row[0]:
            raise StoreFailed(f"{self.name}: is encrypted, and there is no key")
        if self._seal is not None and not row[0]:
            raise StoreFailed(f"{self.name}: is not encrypted, although there is a key; use a new one")
        if self._seal is not None:
            self._seal.open(row[0], CANARY)
