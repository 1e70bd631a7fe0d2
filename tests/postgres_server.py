"""A real PostgreSQL server on a free port, which tests kill, pause and restart."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg

from tests.e2e.stack import child_pids, free_ports, suspend
from tests.waiting import GUARD_S

USER = "sluice"
PASSWORD = "a-secret-of-tests"  # noqa: S105  only this server knows it
_OPTIONS = {
    "max_connections": "30", "log_min_messages": "panic",
    "listen_addresses": "127.0.0.1", "unix_socket_directories": "",
}  # fmt: skip
_FAST = {
    "fsync": "off",  # a killed server loses nothing, only a machine without power
    "full_page_writes": "off", "shared_buffers": "16MB", "autovacuum": "off", "jit": "off",
}  # fmt: skip
# A segment of the log fits, and the last page of a file does not, which is how a full disk looks to the server.
_FULL_SIZE = (1 << 20) + 4096


def _programs() -> Path:
    """Return the folder of the newest server's programs, which Debian keeps out of PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    assert found or on_path, "postgres is missing; install it with: tools/install.sh postgres"
    return (found[-1] if found else Path(on_path or "")).parent


class PostgresServer:
    """A server with one database, whose data outlive its process."""

    def __init__(self, *, is_durable: bool = False) -> None:
        """Without `is_durable`, the server is faster than one of production, and can lose data with the machine."""
        self._options = _OPTIONS if is_durable else _OPTIONS | _FAST
        self._programs = _programs()
        self._folder = Path(tempfile.mkdtemp(prefix="postgres-"))
        self._prefix: list[str] = []
        if os.getuid() == 0:  # the server refuses to run as root
            entry = pwd.getpwnam("postgres")
            os.chown(self._folder, entry.pw_uid, entry.pw_gid)
            ids = (f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}")
            self._prefix = ["setpriv", *ids, "--clear-groups"]
        (self.port,) = free_ports(1)
        self._data = self._folder / "data"
        options = ["--no-sync", "--no-instructions", "--encoding=UTF8", "--locale=C", f"--username={USER}"]
        if not is_durable:
            options.append("--wal-segsize=1")
        password = self._folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        self._run("initdb", f"--pgdata={self._data}", *options, "--auth=scram-sha-256", f"--pwfile={password}").wait()
        self.start()

    @property
    def url(self) -> str:
        """The database's URL."""
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start or restart the server, and return when it answers."""
        settings = tuple(f"-c{name}={value}" for name, value in self._options.items())
        command = ("postgres", "-D", str(self._data), "-p", str(self.port), *settings)
        self._process = self._run(*command)
        deadline = time.monotonic() + GUARD_S
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, "postgres did not start"
                if self._process.poll() is not None:  # a process of the killed server still had its memory
                    self._process = self._run(*command)
                time.sleep(0.02)
            else:
                return

    def execute(self, statement: str) -> list[tuple[object, ...]]:
        """Return the rows of a statement, if it has any."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return [] if cursor.description is None else cursor.fetchall()

    def reset(self) -> None:
        """Delete everything."""
        self.execute("DROP SCHEMA IF EXISTS sluice CASCADE")

    def tables_with(self, text: bytes) -> list[str]:
        """Return the tables of the store in which a text is part of any value."""
        found = []
        with psycopg.connect(self.url, autocommit=True) as connection:
            names = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'sluice' ORDER BY 1")
            for (name,) in names.fetchall():
                with connection.cursor().copy(f"COPY sluice.{name} TO STDOUT".encode()) as copy:
                    content = b"".join(map(bytes, copy))
                if text in content or text.hex().encode() in content:
                    found.append(name)
        return found

    def pids(self) -> list[int]:
        """Return the ids of the server's processes, the first one's last."""
        return [*child_pids(self._process.pid), self._process.pid]

    def kill(self) -> None:
        """Kill the server's processes."""
        for pid in reversed(self.pids()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(GUARD_S)

    def pause(self) -> None:
        """Suspend the server: it keeps its connections and answers nothing."""
        suspend(self._process.pid)  # from now on it starts no other process, and those that end keep their ids
        for pid in child_pids(self._process.pid):
            suspend(pid)

    def resume(self) -> None:
        """Resume the server."""
        for pid in self.pids():
            os.kill(pid, signal.SIGCONT)

    @contextlib.contextmanager
    def full_log(self) -> Iterator[None]:
        """Let the server write nothing to its log, at which it ends as on a full disk, and restart it at the end."""
        self._limit_files("1")
        yield
        with contextlib.suppress(psycopg.OperationalError):
            self.execute("CREATE TABLE more ()")  # in case nothing was written in the block
        self._process.wait(GUARD_S)
        self.start()

    @contextlib.contextmanager
    def full_disk(self) -> Iterator[None]:
        """Let no file grow beyond a size, at which the server reports a full disk, until the end of the block."""
        self._limit_files(str(_FULL_SIZE))
        try:
            yield
        finally:
            self._limit_files("unlimited")

    def _limit_files(self, size: str) -> None:
        """Limit the size of files of all processes, also of those that the first one starts later."""
        for pid in reversed(self.pids()):  # the first one first
            command = [*self._prefix, "prlimit", f"--pid={pid}", f"--fsize={size}:"]  # as the server's user
            subprocess.run(command, check=pid == self._process.pid, timeout=GUARD_S)  # others may have ended

    def close(self) -> None:
        """Stop the server for good, and delete its data."""
        self.kill()
        shutil.rmtree(self._folder)

    def _run(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [*self._prefix, str(self._programs / program), *arguments]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd="/")
