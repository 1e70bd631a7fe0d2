"""The event loop's connection to a worker process that has loaded its model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from service.engine.interface.messages import Command, Report
from service.engine.link.worker import wire
from service.engine.link.worker.worker_process import WorkerDied, WorkerProcess, handle_message


class WorkerConnection:
    """Sends commands to a worker and receives its reports on the running loop, from `open` until the worker ends."""

    def __init__(self, worker: WorkerProcess, on_report: Callable[[Report], None]) -> None:
        self._worker = worker
        self._on_report = on_report
        self._loop = asyncio.get_running_loop()
        self._unsent = bytearray()
        self.ended: asyncio.Future[WorkerDied] = self._loop.create_future()  # its result is the reason

    def open(self) -> None:
        """Start reading. Reports that arrived with the last message of the load are delivered before `open` returns."""
        self._worker.socket.setblocking(False)
        self._loop.add_reader(self._worker.socket, self._read)
        self._receive(b"")

    def send(self, command: Command) -> None:
        """Send a command without blocking. If the worker has ended, the command is dropped.

        Bytes that the socket does not accept yet are buffered. Raise any exception of pickling the command.
        """
        data = wire.pack(command, getattr(command, "serial", wire.NO_SERIAL))
        if self.ended.done():
            return
        if not self._unsent:
            data = data[self._write(data) :]
            if data:
                self._loop.add_writer(self._worker.socket, self._write_more)
        self._unsent += data

    def _read(self) -> None:
        try:
            data = self._worker.socket.recv(wire.CHUNK)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if data:
            self._receive(data)
        else:
            self._end(WorkerDied("the worker closed its connection"))

    def _receive(self, data: bytes) -> None:
        """Handle the messages that `data` completes: pass reports to `on_report`, and handle the others here."""
        for message in self._worker.unpacker.feed(data):
            if isinstance(message, Report):
                self._on_report(message)
                continue
            try:
                handle_message(message)
            except WorkerDied as reason:
                self._end(reason)

    def _end(self, reason: WorkerDied) -> None:
        """Stop reading and writing, and complete `ended` with the reason. Later calls have no effect."""
        if not self.ended.done():
            self._loop.remove_reader(self._worker.socket)
            self._loop.remove_writer(self._worker.socket)
            self.ended.set_result(reason)

    def _write(self, data: bytes | bytearray) -> int:
        """Send as many bytes as the socket accepts now. Return how many it accepted."""
        try:
            return self._worker.socket.send(data)
        except BlockingIOError:
            return 0
        except ConnectionError:  # `_read` reports it
            return len(data)

    def _write_more(self) -> None:
        """Send buffered bytes, and stop waiting for the socket when none is left."""
        del self._unsent[: self._write(self._unsent)]
        if not self._unsent:
            self._loop.remove_writer(self._worker.socket)
