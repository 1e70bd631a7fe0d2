"""Start a worker process, and wait until its model is loaded."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
from typing import Any

from service.engine.link import wire
from service.engine.link.engine_spec import EngineSpec
from service.engine.link.launch import Died, Launch, LoadFailed, Ready

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_END_S = 1.0  # for a process to end by itself when its parent has gone
_SLOW_IMPORTS = "service.engine.loading.generator"

_ahead: list[WorkerProcess] = []  # started, and told nothing yet


class WorkerDied(Exception):  # noqa: N818  it says what happened
    """An engine's process has ended by itself; the text says how."""


class WorkerProcess:
    """A process that computes, and the socket to it."""

    def __init__(self, imports: str = "") -> None:
        """Start the process, which imports the module `imports` and waits for `launch`."""
        self.socket, theirs = socket.socketpair()
        self.unpacker = wire.Unpacker()
        path = os.pathsep.join(os.path.abspath(folder) for folder in sys.path)  # noqa: PTH100  "" is a folder too
        # Signals to the group, such as Ctrl-C's, are the parent's: blocked from the first instant on.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            self.process = subprocess.Popen(  # noqa: S603  this program
                [sys.executable, "-m", "service.engine.link.worker", str(theirs.fileno()), imports],
                pass_fds=[theirs.fileno()],
                # numpy multiplies for models that compute with one thread.
                env={"OPENBLAS_NUM_THREADS": "1"} | os.environ | {"PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            theirs.close()

    def launch(self, engine_spec: EngineSpec, *, beat_s: float) -> None:
        """Send it the core to load; `until_ready` returns when it is loaded, or raises if the process has died."""
        launch = Launch(engine_spec, beat_s, logging.getLogger().getEffectiveLevel())
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(wire.pack(launch))

    def until_ready(self) -> Ready:
        """Wait for the load. Raises ModelLoadError if the model can't be loaded, WorkerDied if the process ends."""
        try:
            return self._until_ready()
        except BaseException:
            self.kill()
            raise

    def kill(self) -> str:
        """End the process if it still runs, let go of what belongs to it, and tell how it ended."""
        self.socket.close()  # which ends it too, if it isn't hung
        try:
            status = self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        return f"ended by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"

    def _until_ready(self) -> Ready:
        for message in wire.receive(self.socket, self.unpacker):
            if isinstance(message, Ready):
                return message
            if isinstance(message, LoadFailed):
                raise message.error
            take(message)
        raise WorkerDied("it has closed its connection")


def start_ahead(num_processes: int) -> None:
    """Start processes for the launches to come: they import what models need while their parent does what it must."""
    _ahead.extend(WorkerProcess(_SLOW_IMPORTS) for _ in range(num_processes))


def next_process() -> WorkerProcess:
    """One that was started ahead, or a new one."""
    return _ahead.pop(0) if _ahead else WorkerProcess()


def take(message: Any) -> None:
    """Take what is no answer: a log record goes to those who would have had it here. Raises WorkerDied for `Died`."""
    if isinstance(message, logging.LogRecord):
        logger = logging.getLogger(message.name)
        if logger.isEnabledFor(message.levelno):
            logger.handle(message)
    elif isinstance(message, Died):
        raise WorkerDied(message.reason)
    elif isinstance(message, wire.Unreadable):
        raise WorkerDied("what it told could not be read") from message.error
