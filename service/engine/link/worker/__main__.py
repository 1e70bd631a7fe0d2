"""`python -m service.engine.link.worker FD MODULE`: an engine's core in a worker process.

The worker imports MODULE, unless it is empty. The parent process is at the other end of the socket FD: it may ask for
plans of cores first, then it sends the specification of the core, then commands, and stops the worker. The worker
always ends when its parent ends. The main thread runs the core, one thread reads commands, and one thread writes the
messages that a busy parent does not accept immediately, so that they never delay a step.
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
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NoReturn

from process.lifetime.scheduling import use_normal_policy
from service.engine.interface.messages import Command, Report
from service.engine.interface.running_load import LoadedBytes, RunningLoad
from service.engine.link.engine_spec import BuiltCore, EngineSpec
from service.engine.link.loop import CommandQueue, run
from service.engine.link.process_memory import freeze_heap
from service.engine.link.worker import wire
from service.engine.link.worker.launch import Died, Examine, Examined, Launch, LoadFailed, Ready
from service.engine.link.worker.send_buffer import SendBuffer
from service.generation.errors import ModelLoadError, SequenceError

_PROGRESS_INTERVAL_S: Final = 0.1  # between reports of a load's progress

_log = logging.getLogger("service.engine.link.worker")  # this module's __name__ is __main__


class Worker:
    """The lifecycle of a worker process."""

    def __init__(self, parent: socket.socket) -> None:
        self._parent = parent
        self._command_queue = CommandQueue()
        self._launch: queue.SimpleQueue[Examine | Launch] = queue.SimpleQueue()
        self._send_buffer = SendBuffer(parent)
        self._ending = threading.Lock()
        threading.Thread(target=self._read, name="reader", daemon=True).start()

    def run(self, imports: str) -> int:
        """Load the core, serve until it is stopped, and return the exit status."""
        if imports:
            importlib.import_module(imports)
        logging.getLogger().addHandler(_ToParent(self._send_buffer))
        status = 1
        try:
            launch = self._until_launch()
            # The model is loaded on a separate thread: the core configures the thread that runs its steps, and the
            # pool that a library such as OpenMP starts for a thread keeps the configuration of its first use.
            with ThreadPoolExecutor(1, thread_name_prefix="load") as loader:
                built = loader.submit(self._load, launch.engine_spec).result()
            freeze_heap()
            self._send_buffer.put(Ready(built.description, built.reload_arguments))
            if built.helpers is not None:
                built.helpers.watch(self._fail)
            run(
                built.core, self._command_queue, self._send_buffer.put, heartbeat_interval_s=launch.heartbeat_interval_s
            )
            if built.helpers is not None:
                built.helpers.close()
            status = 0
        except ModelLoadError as error:
            self._send_buffer.put(LoadFailed(error))
        except BaseException as error:  # noqa: BLE001 - any exception, such as a panic in Rust, must reach the callers
            self._fail(f"{type(error).__name__}: {error}", error)
        self._send_buffer.close()
        return status

    def _until_launch(self) -> Launch:
        """Answer each `Examine`, and return the first `Launch`. Raise ModelLoadError if a plan fails."""
        while True:
            message = self._launch.get()
            logging.getLogger().setLevel(message.log_level)
            if isinstance(message, Launch):
                return message
            self._send_buffer.put(Examined(message.engine_spec.plan()))

    def _load(self, engine_spec: EngineSpec) -> BuiltCore:
        """Load the core, and report the progress to the parent. Raise ModelLoadError."""
        with RunningLoad(_Pacer(self._send_buffer).put).running():
            return engine_spec.make()

    def _fail(self, reason: str, error: BaseException | None = None) -> NoReturn:
        """Report the reason to the parent once, and end the process without waiting for its threads."""
        self._ending.acquire()  # never released: another thread that fails waits here until the process ends
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
            elif isinstance(message, Examine | Launch):
                self._launch.put(message)
            elif isinstance(message, wire.Unreadable):
                _log.error("a command could not be read", exc_info=message.error)
                error = SequenceError("the engine could not read the request")
                self._send_buffer.put(Report(errors=[(message.serial, error)]))
            else:
                _log.error("unknown kind of message: %s", type(message).__name__)
        os._exit(0)  # the parent has ended, so the result of the step in progress is not needed


class _Pacer:
    """Sends the progress of a load to the parent, at most every tenth of a second and at the end."""

    def __init__(self, send_buffer: SendBuffer) -> None:
        self._send_buffer = send_buffer
        self._due = 0.0

    def put(self, progress: LoadedBytes) -> None:
        """Send the progress if it is due."""
        now = time.monotonic()
        if progress.is_complete or now >= self._due:
            self._due = now + _PROGRESS_INTERVAL_S
            self._send_buffer.put(progress)


class _ToParent(logging.handlers.QueueHandler):
    """Sends log records to the parent, whose handlers write them."""

    def __init__(self, send_buffer: SendBuffer) -> None:
        super().__init__(queue.SimpleQueue())
        self._send_buffer = send_buffer

    def enqueue(self, record: logging.LogRecord) -> None:
        self._send_buffer.put(record)


def main() -> None:
    """Run the worker and end the process, including constraints that are still being compiled."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the parent decides when the worker stops
    use_normal_policy()
    status = Worker(socket.socket(fileno=int(sys.argv[1]))).run(sys.argv[2])
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
