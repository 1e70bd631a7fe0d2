"""The processes of all ranks but the leader's: start, commands, end."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import abc

from service.engine.link import wire
from service.engine.link.engine_spec import EngineSpec
from service.engine.link.worker_process import WorkerDied, WorkerProcess, take
from service.engine.messages import RankCommand

_BEAT_S = 60.0  # nobody reads their reports
_VERDICT_S = 5.0  # for the system to tell that a process has ended


class RankDied(RuntimeError):  # noqa: N818  it says what happened
    """One of the ranks has ended; the text says which and how. Without it the others compute nothing."""


class RankProcesses:
    """Ranks 1 and up. When one of them ends, all of the engine must."""

    def __init__(self, engine_specs: abc.Sequence[EngineSpec]) -> None:
        """Start a process for each recipe; they load while this one does."""
        self._workers: list[WorkerProcess] = []
        self._lock = threading.Lock()
        self._death: RankDied | None = None
        self._is_known = threading.Event()
        self._on_death: abc.Callable[[str], None] | None = None
        self._is_closing = False
        for engine_spec in engine_specs:
            worker = WorkerProcess()
            self._workers.append(worker)
            worker.launch(engine_spec, beat_s=_BEAT_S)

    def until_ready(self) -> None:
        """Wait until all have loaded. Raises ModelLoadError, or RankDied for one that ends meanwhile."""
        for rank, worker in enumerate(self._workers, 1):
            try:
                worker.until_ready()
            except WorkerDied as error:
                raise self._died(rank, str(error)) from error
        for rank, worker in enumerate(self._workers, 1):
            threading.Thread(target=self._listen, args=(rank, worker), name=f"rank {rank}", daemon=True).start()

    def send(self, work: object) -> None:
        """Give all of them an order."""
        data = wire.pack(RankCommand(work))
        for worker in self._workers:
            worker.socket.sendall(data)

    def watch(self, on_death: abc.Callable[[str], None]) -> None:
        """Call `on_death` with the reason, on a thread of its own, when one has ended."""
        with self._lock:
            self._on_death = on_death
            death = self._death
        if death is not None:
            on_death(str(death))

    def verdict(self, error: Exception) -> Exception:
        """What is to be raised for an error of a step: that a rank has ended, if one has, else the error itself."""
        self._is_known.wait(_VERDICT_S)
        return self._death or error

    def close(self) -> None:
        """End all of them; returns when they have ended."""
        self._is_closing = True
        for worker in self._workers:
            with contextlib.suppress(OSError):
                worker.socket.shutdown(socket.SHUT_RDWR)  # the thread that reads it wouldn't notice that it is closed
            worker.kill()

    def _listen(self, rank: int, worker: WorkerProcess) -> None:
        reason = ""
        try:
            for message in wire.receive(worker.socket, worker.unpacker):
                take(message)
        except WorkerDied as error:
            reason = str(error)
        except OSError:
            pass  # this side has closed it
        if self._is_closing:
            return
        how = worker.kill()
        death = self._died(rank, f"{reason} ({how})" if reason else how)
        with self._lock:
            if self._death is not None:
                return
            self._death, on_death = death, self._on_death
        self._is_known.set()
        if on_death is not None:
            on_death(str(death))

    def _died(self, rank: int, how: str) -> RankDied:
        return RankDied(f"rank {rank} of {len(self._workers) + 1} of tensor parallelism has ended: {how}")
