"""A real Redis server on a free port, which tests kill, pause and restart."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time

from tests.e2e.stack import free_ports, suspend
from tests.waiting import GUARD_S


class RedisServer:
    """A Redis server without persistence: a restart loses all data."""

    def __init__(self) -> None:
        program = shutil.which("redis-server")
        assert program is not None, "redis-server is missing; install it with: tools/install.sh redis"
        self._program = program
        (self.port,) = free_ports(1)
        self.start()

    @property
    def url(self) -> str:
        """The server's URL."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start or restart the server, and return when it answers."""
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen([self._program, *options], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + GUARD_S
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                    connection.sendall(b"PING\r\n")
                    assert connection.recv(16).startswith(b"+PONG")
                    break
            except OSError:
                assert time.monotonic() < deadline, "redis-server did not start"
                time.sleep(0.01)

    def kill(self) -> None:
        """Kill the server."""
        self._process.kill()
        self._process.wait(GUARD_S)

    def pause(self) -> None:
        """Suspend the server: it keeps its connections and answers nothing."""
        suspend(self._process.pid)

    def resume(self) -> None:
        """Resume the server."""
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Stop the server for good."""
        self.kill()
