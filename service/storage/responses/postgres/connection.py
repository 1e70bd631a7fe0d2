"""One connection to PostgreSQL, which is made again after it is lost, and what became of its last transaction."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from service.storage.responses.port import StoreFailed, StoreUnavailable
from service.storage.responses.postgres.schema import SCHEMA

if TYPE_CHECKING:
    import psycopg

_RETRY_S: Final = 0.2  # between attempts to learn the outcome of a transaction
# A server or network that is gone without a word is noticed within this time.
_SILENCE_S: Final = 20
_KEEPALIVES: Final = {
    "keepalives_idle": 5, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": _SILENCE_S * 1000,
}  # fmt: skip
# A process that is suspended within a transaction loses it; no other process waits for longer.
_OPTIONS: Final = (
    f"-c search_path={SCHEMA} -c lock_timeout=12s -c idle_in_transaction_session_timeout=10s -c statement_timeout=120s"
)

_log = logging.getLogger(__name__)


def load_driver() -> Any:
    """Return the module psycopg. Raise StoreFailed if it is not installed."""
    try:
        # Imported late: most services use no PostgreSQL, and it is an extra.
        import psycopg  # noqa: PLC0415
    except ImportError as error:
        raise StoreFailed(
            f"PostgreSQL needs psycopg; install it with: pip install 'sluice-llm[postgres]' ({error})"
        ) from error
    return psycopg


class Connection:
    """A connection to a server. It is used by one thread at a time. Errors of psycopg are the caller's to translate."""

    def __init__(self, url: str, password_file: Path | None, timeout_s: float) -> None:
        """Connect on first use. Raise StoreFailed without psycopg. `timeout_s` is the time of an attempt to connect.

        The password is read from its file for each attempt, so that it can be changed.
        """
        self.driver = load_driver()
        self._password_file = password_file
        try:
            given = self.driver.conninfo.conninfo_to_dict(url)
        except self.driver.Error:  # its text may have a password
            raise StoreFailed("is not a URL of a PostgreSQL database") from None
        self._options = {
            "connect_timeout": max(2, math.ceil(timeout_s)),  # libpq's minimum
            "application_name": "sluice",
            **_KEEPALIVES,
            **given,
            "options": f"{_OPTIONS} {given.get('options', '')}".rstrip(),
        }
        self.name = f"PostgreSQL {given.get('host', 'localhost')}:{given.get('port', 5432)}/{given.get('dbname', '')}"
        self._connection: psycopg.Connection[Any] | None = None

    @property
    def is_lost(self) -> bool:
        """Whether the connection was lost, or never made."""
        return self._connection is None or self._connection.closed

    def get(self) -> psycopg.Connection[Any]:
        """Return the open connection. Raise StoreUnavailable if there is none, and none can be made."""
        if self._connection is None or self._connection.closed:
            self._connection = None
            self._connection = self._connect()
        return self._connection

    def drop(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            with contextlib.suppress(self.driver.Error):
                self._connection.close()
            self._connection = None

    def is_committed(self, transaction_id: str) -> bool:
        """Return whether a transaction was committed whose connection was lost at that moment.

        This waits until the server answers: a change may neither be reported as failed if it was made, nor be made
        again. A server without knowledge of the transaction is another one, which does not have its changes.
        """
        _log.warning("waiting for %s to learn whether the last change was made", self.name)
        while True:
            try:
                row = self.get().execute("SELECT pg_xact_status(%s::xid8)", (transaction_id,)).fetchone()
            except (self.driver.OperationalError, StoreUnavailable):
                time.sleep(_RETRY_S)
                continue
            except self.driver.Error:
                return False
            if row is None or row[0] != "in progress":
                return row is not None and row[0] == "committed"
            time.sleep(_RETRY_S)

    def _connect(self) -> psycopg.Connection[Any]:
        """Return a new connection. Raise StoreUnavailable."""
        options = dict(self._options)
        if self._password_file is not None:
            try:
                options["password"] = self._password_file.read_text().strip()
            except OSError as error:
                raise StoreUnavailable(f"{self._password_file}: {error.strerror}") from error
        try:
            made: psycopg.Connection[Any] = self.driver.connect(**options, autocommit=True)
        except self.driver.Error as error:
            raise StoreUnavailable(f"{self.name}: {first_line(error)}") from error
        return made


def first_line(error: Exception) -> str:
    """Return the error of a server or of libpq without its details, which may have content."""
    diag = getattr(error, "diag", None)
    lines = str(error).splitlines() or [type(error).__name__]
    return str(getattr(diag, "message_primary", None) or lines[0])
