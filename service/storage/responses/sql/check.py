"""Check the rows and the encrypted values of a database of stored responses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

from service.storage.responses.port import StoreFailed
from service.storage.responses.seal import Seal
from service.storage.responses.sql.database import CANARY

# The encrypted columns of each table. A value is bound to its key and, except in the last two, to its column's name.
_SEALED: Final = (
    ("responses", ("owner", "id"), ("request", "response", "client_data", "events")),
    ("jobs", ("owner", "id"), ("caller", "stream")),
    ("conversations", ("owner", "id"), ("metadata",)),
    ("files", ("owner", "id"), ("filename",)),
    ("batches", ("owner", "id"), ("description", "caller", "digest")),
    ("batch_lines", ("owner", "batch", "position"), ("request", "result")),
    ("items", ("owner", "conversation", "id"), ("item",)),
    ("file_parts", ("owner", "file", "position"), ("content",)),
)
_WITHOUT_NAME: Final = frozenset({"item", "content"})
_OPTIONAL: Final = frozenset({"events", "result", "digest"})  # missing ones are stored as nothing
_TABLES: Final = {"responses": "responses", "jobs": "unfinished responses", "conversations": "conversations",
                  "items": "items of conversations", "files": "files", "batches": "batches",
                  "batch_lines": "requests of batches"}  # fmt: skip
Rows: TypeAlias = Callable[[str], Iterable[Any]]


def described(name: str, rows: Rows, seal: Seal | None) -> Iterator[str]:
    """Yield the lines of a description. Raise StoreFailed with the first value that is damaged."""
    canaries = [canary for (canary,) in rows("SELECT canary FROM seal")]
    is_sealed = bool(canaries and canaries[0])
    if is_sealed and seal is None:
        raise StoreFailed(f"{name} is encrypted, and there is no key")
    num_values = 0
    if is_sealed and seal is not None:
        seal.open(canaries[0], CANARY)
        num_values = _open_all(rows, seal)
    for table, noun in _TABLES.items():
        ((count,),) = rows(f"SELECT count(*) FROM {table}")  # noqa: S608  constants
        yield f"{count} {noun}"
    ((num_bytes, num_owners),) = rows("SELECT CAST(coalesce(sum(num_bytes), 0) AS BIGINT), count(*) FROM usage")
    yield f"{num_bytes} bytes of {num_owners} keys"
    yield f"{num_values} encrypted values" if is_sealed else "not encrypted"


def _open_all(rows: Rows, seal: Seal) -> int:
    """Open every encrypted value, and return their number."""
    num_values = 0
    for table, key, columns in _SEALED:
        for row in rows(f"SELECT {', '.join((*key, *columns))} FROM {table}"):  # noqa: S608  constants
            of_key = row[: len(key)]
            for column, value in zip(columns, row[len(key) :], strict=True):
                if value or column not in _OPTIONAL:
                    name = () if column in _WITHOUT_NAME else (column,)
                    seal.open(value, "\0".join(map(str, (*of_key, *name))))
                    num_values += 1
    return num_values
