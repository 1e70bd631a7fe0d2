"""Compare the rates of storing, reading and deleting responses in a SQLite file and in a PostgreSQL database.

Run: .venv/bin/python -m bench.calls.stored_responses [--responses 300] [--bytes 8000] [--rounds 5]

Both are on the disk of the temporary folder, with their own durability: a response is stored when it is on the disk.
The server, which `tools/install.sh postgres` installs, runs on the same machine with its default settings. Stores take
turns; rates are medians of the rounds. With several services, each has a connection of its own and a thread.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

from service.storage.responses.port import ResponseRecord, StoreLimits
from service.storage.responses.postgres.postgres_store import PostgresStore
from service.storage.responses.sql.store import SqlStore
from service.storage.responses.sqlite.sqlite_store import SqliteStore
from tests.postgres_server import PostgresServer

_LIMITS: Final = StoreLimits(1e9, 1 << 40, 1 << 40)
_SERVICES: Final = 4
_COLUMNS: Final = ("stored/s", "read/s", "deleted/s")


def rates(stores: Sequence[SqlStore], records: Sequence[ResponseRecord]) -> list[float]:
    """Return how many responses a second the stores together store, read and delete."""

    def rate(act: Callable[[SqlStore, ResponseRecord], object]) -> float:
        def act_on_share(index: int) -> None:
            for record in records[index :: len(stores)]:
                act(stores[index], record)

        began = time.perf_counter()
        list(pool.map(act_on_share, range(len(stores))))
        return len(records) / (time.perf_counter() - began)

    with ThreadPoolExecutor(len(stores)) as pool:
        return [
            rate(lambda store, record: store.put(record)),
            rate(lambda store, record: store.get(record.owner, record.id)),
            rate(lambda store, record: store.delete(record.owner, record.id)),
        ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--responses", type=int, default=300)
    parser.add_argument("--bytes", type=int, default=8000, help="of a response with its request")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    draw = random.Random(1)  # bytes that can't be compressed
    half = options.bytes // 2
    records = [
        ResponseRecord("a", str(number), time.time_ns(), "", draw.randbytes(half), draw.randbytes(half))
        for number in range(options.responses)
    ]
    with ExitStack() as stack:
        server = stack.enter_context(closing(PostgresServer(is_durable=True)))
        file = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "responses.sqlite3"
        services = [stack.enter_context(closing(PostgresStore(server.url, _LIMITS))) for _ in range(_SERVICES)]
        measured: dict[str, Sequence[SqlStore]] = {
            "sqlite": [stack.enter_context(closing(SqliteStore(file, _LIMITS)))],
            "postgres": services[:1],
            f"postgres, {_SERVICES} services": services,
        }
        rounds = [{name: rates(stores, records) for name, stores in measured.items()} for _ in range(options.rounds)]
    print(f"{'store':24}" + "".join(f"{column:>16}" for column in _COLUMNS))
    for name in measured:
        medians = [statistics.median(each[name][index] for each in rounds) for index in range(len(_COLUMNS))]
        ratios = [statistics.median(each[name][i] / each["sqlite"][i] for each in rounds) for i in range(len(_COLUMNS))]
        print(f"{name:24}" + "".join(f"{m:8.0f} ({r:5.2f})" for m, r in zip(medians, ratios, strict=True)))
    print("in parentheses: relative to sqlite in the same round, median")


if __name__ == "__main__":
    main()
