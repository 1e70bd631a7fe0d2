"""The store of responses in one SQLite file."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from service.storage.responses.batch_port import BatchLimits
from service.storage.responses.port import StoreLimits
from service.storage.responses.seal import Seal
from service.storage.responses.sql.store import DEFAULT_BATCH_LIMITS, SqlStore
from service.storage.responses.sqlite.sqlite_file import SqliteFile


class SqliteStore(SqlStore):
    """A `ResponseStore` in a file. It is used by one thread at a time."""

    def __init__(
        self,
        path: Path,
        limits: StoreLimits,
        now_ns: Callable[[], int] | None = None,
        seal: Seal | None = None,
        running_ns: Callable[[], int] = time.monotonic_ns,
        *,
        batch_limits: BatchLimits = DEFAULT_BATCH_LIMITS,
    ) -> None:
        """Open the file, which is created if it does not exist, for its owner only. Raise StoreFailed.

        `seal` encrypts requests, responses and client data; ids, owners and dates are not encrypted. `now_ns` returns
        the time since the epoch, by default the system's. `running_ns` is a clock that is never set, and that all
        processes of the machine share: leases are by it, and end when the machine is started again.
        """
        super().__init__(
            SqliteFile(path, seal),
            limits,
            batch_limits,
            now_ns=now_ns or time.time_ns,
            running_ns=running_ns,
            lease_ns=running_ns,
        )
