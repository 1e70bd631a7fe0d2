"""The store of responses in a PostgreSQL database."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from service.storage.responses.batch_port import BatchLimits
from service.storage.responses.port import StoreLimits
from service.storage.responses.postgres.connection import Connection
from service.storage.responses.postgres.database import PostgresDatabase
from service.storage.responses.seal import Seal
from service.storage.responses.sql.store import DEFAULT_BATCH_LIMITS, SqlStore


class PostgresStore(SqlStore):
    """A `ResponseStore` in a database, which replicas share. It is used by one thread at a time."""

    def __init__(
        self,
        url: str,
        limits: StoreLimits,
        now_ns: Callable[[], int] | None = None,
        seal: Seal | None = None,
        running_ns: Callable[[], int] = time.monotonic_ns,
        *,
        batch_limits: BatchLimits = DEFAULT_BATCH_LIMITS,
        password_file: Path | None = None,
        timeout_s: float = 2.0,
    ) -> None:
        """Connect, and create or migrate the tables. Raise StoreUnavailable without a server, or StoreFailed.

        The time is the server's unless `now_ns` returns another one. `timeout_s` is the time of an attempt to connect.
        """
        database = PostgresDatabase(Connection(url, password_file, timeout_s), seal)
        clock = now_ns or database.now_ns
        super().__init__(database, limits, batch_limits, now_ns=clock, running_ns=running_ns, lease_ns=clock)
