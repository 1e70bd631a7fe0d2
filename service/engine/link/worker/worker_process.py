"""Start a worker process and wait until its model is loaded."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, TypeVar

from service.engine.interface.running_load import LoadedBytes, running_load
from service.engine.link.engine_spec import EngineSpec, Plan
from service.engine.link.worker import wire
from service.engine.link.worker.launch import Died, Examine, Examined, Launch, LoadFailed, Ready
from service.generation.errors import ModelLoadError

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_END_S = 1.0  # the time that a process has to end by itself after its socket was closed
_SLOW_IMPORTS = "service.engine.loading.generator"

_Answer = TypeVar("_Answer", Examined, Ready)

_prestarted: list[WorkerProcess] = []  # started, but without a Launch yet
_loading: set[WorkerProcess] = set()


class WorkerDied(Exception):  # noqa: N818  the name says what happened
    """A worker process has ended unexpectedly. The message has the reason."""


class WorkerProcess:
    """A worker process and the socket to it."""

    def __init__(self, imports: str = "") -> None:
        """Start the process, which imports the module `imports` and waits for `launch`."""
        self.socket, theirs = socket.socketpair()
        self.unpacker = wire.Unpacker()
        path = os.pathsep.join(os.path.abspath(folder) for folder in sys.path)  # noqa: PTH100  "" is a folder too
        # The parent handles signals to the process group, such as Ctrl-C: the worker starts with them blocked.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            self.process = subprocess.Popen(  # noqa: S603  this program
                [sys.executable, "-m", "service.engine.link.worker", str(theirs.fileno()), imports],
                pass_fds=[theirs.fileno()],
                # Models that compute with one thread multiply with numpy.
                env={"OPENBLAS_NUM_THREADS": "1"} | os.environ | {"PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
            )
        except OSError:
            self.socket.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            theirs.close()

    @property
    def is_suspended(self) -> bool:
        """True if a signal such as SIGSTOP has stopped the process. Always False where there is no /proc."""
        try:
            status = Path(f"/proc/{self.process.pid}/stat").read_bytes()
        except OSError:
            return False
        return status.rpartition(b")")[2].split()[0] in {b"T", b"t"}

    def launch(self, engine_spec: EngineSpec, *, heartbeat_interval_s: float) -> None:
        """Send the specification of the core to load. Call `until_ready` to wait for the result."""
        self._send(Launch(engine_spec, heartbeat_interval_s, logging.getLogger().getEffectiveLevel()))

    def until_ready(self) -> Ready:
        """Wait for the load. Raise ModelLoadError if the model cannot be loaded, WorkerDied if the process ends.

        Raise LoadCancelled if the running load is cancelled, which ends the process and learns its progress.
        """
        return self._until(Ready)

    def plan(self, engine_spec: EngineSpec) -> Plan:
        """Return the plan of a core. The process can be launched, or plan another core, afterwards.

        Raise ModelLoadError if the model could not be loaded, WorkerDied if the process ends.
        """
        self._send(Examine(engine_spec, logging.getLogger().getEffectiveLevel()))
        return self._until(Examined).plan

    def kill(self) -> str:
        """End the process if it still runs, close its socket, and return how the process ended."""
        self.socket.close()  # this ends the process too, unless it hangs
        try:
            status = self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        return f"ended by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"

    async def end(self) -> str:
        """Do the same without blocking the event loop, unless no thread can be started."""
        try:
            return await asyncio.to_thread(self.kill)
        except RuntimeError:
            return self.kill()

    def _send(self, message: Examine | Launch) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(wire.pack(message))

    def _until(self, kind: type[_Answer]) -> _Answer:
        """Wait for a message of `kind`; after an error the process is killed."""
        _loading.add(self)
        try:
            with running_load().interruptible(self.process.kill):
                return self._receive(kind)
        except BaseException:
            self.kill()
            raise
        finally:
            _loading.discard(self)

    def _receive(self, kind: type[_Answer]) -> _Answer:
        for message in wire.receive(self.socket, self.unpacker):
            if isinstance(message, kind):
                return message
            if isinstance(message, LoadFailed):
                raise message.error
            if isinstance(message, LoadedBytes):
                running_load().report(message)
                continue
            handle_message(message)
        raise WorkerDied("the worker closed its connection")


def prestart_workers(num_processes: int) -> None:
    """Start processes for later launches; they import slow modules while their parent prepares the launches."""
    _prestarted.extend(WorkerProcess(_SLOW_IMPORTS) for _ in range(num_processes))


def end_unused_workers() -> None:
    """Kill the processes that wait for a launch or load a model, at the end of this process."""
    for worker in [*_prestarted, *_loading]:
        worker.process.kill()
    while _prestarted:
        _prestarted.pop().kill()


def next_worker() -> WorkerProcess:
    """Return a process that was started ahead, or a new one. Raise ModelLoadError if none can be started."""
    try:
        return _prestarted.pop(0) if _prestarted else WorkerProcess()
    except OSError as error:  # a limit of processes, memory or descriptors
        raise ModelLoadError(f"the engine's process can't be started: {error}") from error


def put_back(worker: WorkerProcess) -> None:
    """Let `next_worker` return a process that has planned cores and was not launched."""
    _prestarted.insert(0, worker)


def handle_message(message: Any) -> None:
    """Handle a message of another kind: log a record with this process's handlers, or raise WorkerDied for `Died`."""
    if isinstance(message, logging.LogRecord):
        logger = logging.getLogger(message.name)
        if logger.isEnabledFor(message.levelno):
            logger.handle(message)
    elif isinstance(message, Died):
        raise WorkerDied(message.reason)
    elif isinstance(message, wire.Unreadable):
        raise WorkerDied("a message from the worker could not be read") from message.error
