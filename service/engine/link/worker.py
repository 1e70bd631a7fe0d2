"""`python -m service.engine.link.worker FD MODULE`: an engine's side in a process of its own.

It imports MODULE, if that isn't empty. Its parent is at the other end of the socket FD: it says what to load, sends
mail and stops the process, which ends with it in any case. The main thread runs the engine; one thread reads mail, and
one writes what a busy parent doesn't take at once, so that it never holds up a step.
"""

from __future__ import annotations

import importlib
import logging
import logging.handlers
import os
import queue
import signal
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn

from process.lifetime.scheduling import interrupt_others
from service.engine.link import wire
from service.engine.link.launch import Died, Launch, LoadFailed, Ready
from service.engine.link.loop import CommandQueue, run
from service.engine.link.send_buffer import SendBuffer
from service.engine.link.settle import settle
from service.engine.messages import Command, Report
from service.generation.errors import ModelLoadError, SequenceError

_log = logging.getLogger("service.engine.link.worker")  # whose own name is __main__


class Worker:
    """One process's life."""

    def __init__(self, parent: socket.socket) -> None:
        self._parent = parent
        self._command_queue: CommandQueue = queue.SimpleQueue()
        self._launch: queue.SimpleQueue[Launch] = queue.SimpleQueue()
        self._send_buffer = SendBuffer(parent)
        self._ending = threading.Lock()
        threading.Thread(target=self._read, name="reader", daemon=True).start()

    def run(self, imports: str) -> int:
        """Load, serve until told to stop, and return the exit status."""
        if imports:
            importlib.import_module(imports)
        launch = self._launch.get()
        logging.getLogger().setLevel(launch.log_level)
        logging.getLogger().addHandler(_ToParent(self._send_buffer))
        status = 1
        try:
            # On a thread of its own: what computes a step sets up its thread, and the helpers that libraries such as
            # OpenMP make for a thread with its first work keep what held for it then.
            with ThreadPoolExecutor(1, thread_name_prefix="load") as loader:
                made = loader.submit(launch.engine_spec.make).result()
            settle()
            self._send_buffer.put(Ready(made.description, made.again))
            if made.helpers is not None:
                made.helpers.watch(self._fail)
            run(made.core, self._command_queue, self._send_buffer.put, beat_s=launch.beat_s)
            if made.helpers is not None:
                made.helpers.close()
            status = 0
        except ModelLoadError as error:
            self._send_buffer.put(LoadFailed(error))
        except BaseException as error:  # noqa: BLE001 - whatever it is, such as a panic in Rust, callers must be told
            self._fail(f"{type(error).__name__}: {error}", error)
        self._send_buffer.close()
        return status

    def _fail(self, reason: str, error: BaseException | None = None) -> NoReturn:
        """Tell the parent why, once, and end the process, whatever its threads are at."""
        self._ending.acquire()  # for good: another thread that fails, too, waits here for the end
        if error is None:
            _log.error("the engine has failed: %s", reason)
        else:
            _log.error("the engine has failed", exc_info=error)
        self._send_buffer.put(Died(reason))
        self._send_buffer.close()
        sys.stderr.flush()
        os._exit(1)

    def _read(self) -> None:
        for message in wire.receive(self._parent, wire.Unpacker()):
            if isinstance(message, Command):
                self._command_queue.put(message)
            elif isinstance(message, Launch):
                self._launch.put(message)
            elif isinstance(message, wire.Unreadable):
                _log.error("mail could not be read", exc_info=message.error)
                error = SequenceError("the request could not be read")
                self._send_buffer.put(Report(errors=[(message.serial, error)]))
            else:
                _log.error("mail of an unknown kind: %s", type(message).__name__)
        os._exit(0)  # the parent has gone: nobody waits for anything, not even for the end of a step


class _ToParent(logging.handlers.QueueHandler):
    """Sends log records to the parent, whose handlers know where they belong."""

    def __init__(self, send_buffer: SendBuffer) -> None:
        super().__init__(queue.SimpleQueue())
        self._send_buffer = send_buffer

    def enqueue(self, record: logging.LogRecord) -> None:
        self._send_buffer.put(record)


def main() -> None:
    """Run the worker and end the process, with it whatever still compiles."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the parent decides when
    interrupt_others()
    status = Worker(socket.socket(fileno=int(sys.argv[1]))).run(sys.argv[2])
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
