"""The processes of all ranks except the leader: their start, commands and end."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import abc

from service.engine.interface.messages import RankCommand
from service.engine.link.engine_spec import EngineSpec
from service.engine.link.worker import wire
from service.engine.link.worker.worker_process import WorkerDied, WorkerProcess, handle_message

_HEARTBEAT_INTERVAL_S = 60.0  # their reports are ignored
_NOTICE_S = 5.0  # the time in which the death of a process is noticed


class RankDied(RuntimeError):  # noqa: N818  the name says what happened
    """A rank has ended; the text says which and how. The other ranks cannot compute without it."""


class RankProcesses:
    """The processes of ranks 1 and up. If one of them ends, the whole engine must end."""

    def __init__(self, engine_specs: abc.Sequence[EngineSpec]) -> None:
        """Start a process for each specification; they load in parallel with this process."""
        self._workers: list[WorkerProcess] = []
        self._lock = threading.Lock()
        self._death: RankDied | None = None
        self._is_known = threading.Event()
        self._on_death: abc.Callable[[str], None] | None = None
        self._is_closing = False
        for engine_spec in engine_specs:
            worker = WorkerProcess()
            self._workers.append(worker)
            worker.launch(engine_spec, heartbeat_interval_s=_HEARTBEAT_INTERVAL_S)

    def until_ready(self) -> None:
        """Wait until all ranks have loaded. Raise ModelLoadError, or RankDied if a process ends."""
        for rank, worker in enumerate(self._workers, 1):
            try:
                worker.until_ready()
            except WorkerDied as error:
                raise self._died(rank, str(error)) from error
        for rank, worker in enumerate(self._workers, 1):
            threading.Thread(target=self._listen, args=(rank, worker), name=f"rank {rank}", daemon=True).start()

    def send(self, work: object) -> None:
        """Send a command to all ranks."""
        data = wire.pack(RankCommand(work))
        for worker in self._workers:
            worker.socket.sendall(data)

    def watch(self, on_death: abc.Callable[[str], None]) -> None:
        """Call `on_death` with the reason, on a separate thread, when a rank has ended."""
        with self._lock:
            self._on_death = on_death
            death = self._death
        if death is not None:
            on_death(str(death))

    def cause_of(self, error: Exception) -> Exception:
        """Return the error to raise for a step's error: RankDied if a rank has ended, otherwise the error itself."""
        self._is_known.wait(_NOTICE_S)
        return self._death or error

    def close(self) -> None:
        """End all ranks, and return when they have ended."""
        self._is_closing = True
        for worker in self._workers:
            with contextlib.suppress(OSError):
                worker.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads; closing would not
            worker.kill()

    def _listen(self, rank: int, worker: WorkerProcess) -> None:
        """Handle the messages of a rank's process until it ends, and report its death unless it was closed."""
        reason = ""
        try:
            for message in wire.receive(worker.socket, worker.unpacker):
                handle_message(message)
        except WorkerDied as error:
            reason = str(error)
        except OSError:
            pass  # `close` has closed the socket
        if self._is_closing:
            return
        ending = worker.kill()
        death = self._died(rank, f"{reason} ({ending})" if reason else ending)
        with self._lock:
            if self._death is not None:
                return
            self._death, on_death = death, self._on_death
        self._is_known.set()
        if on_death is not None:
            on_death(str(death))

    def _died(self, rank: int, ending: str) -> RankDied:
        return RankDied(f"rank {rank} of {len(self._workers) + 1} of tensor parallelism has ended: {ending}")
