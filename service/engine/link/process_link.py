"""An engine's core in a worker process, restarted when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import abc
from contextvars import Context
from functools import partial
from operator import eq
from typing import Any

from service.engine.interface.messages import Command, StopCore
from service.engine.link.cache_file import CacheFile
from service.engine.link.engine_spec import EngineSpec, Plan
from service.engine.link.link import Receiver
from service.engine.link.link_state import NEXT_STATES, LinkState
from service.engine.link.loop import HEARTBEAT_INTERVAL_S
from service.engine.link.restarts import Restarts
from service.engine.link.worker.launch import Ready
from service.engine.link.worker.worker_connection import WorkerConnection
from service.engine.link.worker.worker_process import WorkerDied, WorkerProcess, next_worker, put_back
from service.generation.errors import ModelChanged, ModelLoadError

_STOP_S = 30.0  # the time that a step in progress has to end

_log = logging.getLogger(__name__)
_WITHOUT_WORKER = frozenset({LinkState.NEW, LinkState.STOPPED, LinkState.DEAD})


class ProcessLink:
    """Runs the core of an `EngineSpec` in a process, from `launch()`, or `plan()` and `relaunch()`, to `await stop()`.

    Until `launch` or `plan` returns, its thread owns the link; from then on the event loop does. A thread that waits
    for a worker to load or to end uses that worker only.
    """

    def __init__(
        self,
        engine_spec: EngineSpec,
        *,
        name: str = "engine",
        restarts: Restarts | None = None,
        heartbeat_interval_s: float = HEARTBEAT_INTERVAL_S,
        detects_suspension: bool = True,
        cache_file: CacheFile | None = None,
    ) -> None:
        """`name` identifies the engine in the log. `heartbeat_interval_s` is how often an idle engine reports.

        Without `detects_suspension`, `is_suspended` is always False. `cache_file` is the memory of the core's cache,
        which the specification names; it is freed when no worker will use it any more.
        """
        self.state = LinkState.NEW
        self._engine_spec = engine_spec
        self._name = name
        self._restarts = restarts or Restarts()
        self._heartbeat_interval_s = heartbeat_interval_s
        self._detects_suspension = detects_suspension
        self._cache_file = cache_file
        self._worker: WorkerProcess | None = None
        self._connection: WorkerConnection | None = None  # to the worker that runs, or that ran last
        self._work: asyncio.Future[Any] | None = None  # supervises the worker, or waits for its load
        self._stop_requested = asyncio.Event()
        self._launch_s = 0.0  # of the last launch
        self._is_expected: abc.Callable[[Any], bool] = lambda _: True  # what a relaunched core may be

    @property
    def pid(self) -> int | None:
        """The process id, or None before the launch and during a restart."""
        return self._worker.process.pid if self._worker else None

    @property
    def is_suspended(self) -> bool:
        """True if the running process was stopped by a signal such as SIGSTOP, and has not been continued."""
        if not self._detects_suspension or self.state is not LinkState.RUNNING or self._worker is None:
            return False
        return self._worker.is_suspended

    def kill(self) -> None:
        """Kill the process; it is restarted."""
        if self._worker is not None:
            self._worker.process.kill()

    def launch(self) -> Any:
        """Start the process, wait until it has loaded the model, and return the core's description.

        This may take minutes. Raise ModelLoadError if the model cannot be loaded or the process dies.
        """
        self._enter(LinkState.LOADING)
        try:
            self._worker = next_worker()
            ready = self._load(self._worker)
        except BaseException:
            if self._cache_file is not None:  # an error's traceback may keep the link
                self._cache_file.close()
            self._worker = None
            self._enter(LinkState.NEW)
            raise
        self._accept(ready)
        self._enter(LinkState.LOADED)
        return ready.description

    def plan(self) -> Plan:
        """Return a plan of the core without loading it, instead of `launch`: `relaunch` loads it.

        Raise ModelLoadError if the model could not be loaded or the process dies.
        """
        try:
            worker = next_worker()
            plan = worker.plan(self._engine_spec)
        except BaseException as error:
            if self._cache_file is not None:
                self._cache_file.close()
            if isinstance(error, WorkerDied):
                text = f"{self._name}: the engine's process died while reading the model's files: {error}"
                raise ModelLoadError(text) from error
            raise
        put_back(worker)
        self._is_expected = plan.matches
        self._enter(LinkState.STOPPED)
        return plan

    def start(self, receiver: Receiver) -> None:
        """Report to `receiver` on the running loop, or from the relaunch on. Raise ValueError before the launch."""
        if self.state is LinkState.STOPPED:
            self._receiver = receiver
            return
        if self.state is not LinkState.LOADED:
            raise ValueError("the engine's process must be launched before it is started")
        self._receiver = receiver
        supervision = self._supervise(self._attach())
        # In a context of its own: that of a caller may report the progress of another load.
        self._work = asyncio.create_task(supervision, name=f"{self._name}'s supervisor", context=Context())

    @property
    def can_relaunch(self) -> bool:
        """Always True: the process's memory is freed when it ends."""
        return True

    async def relaunch(self) -> Any:
        """Load the core again after a stop, report to the same receiver, and return the core's description.

        Raise ModelLoadError if that fails, and its subclass ModelChanged if the files are not those of the first
        launch or the plan.
        """
        self._enter(LinkState.LOADING)
        self._stop_requested.clear()
        try:
            self._worker = next_worker()
            self._work = asyncio.ensure_future(asyncio.to_thread(self._load_again, self._worker))
            ready = await asyncio.shield(self._work)
        except Exception:
            if self.state is LinkState.LOADING:
                self._worker = None
                self._enter(LinkState.STOPPED)
            raise
        if self.state is not LinkState.LOADING:
            raise ModelLoadError(f"{self._name}: the engine was stopped while it loaded the model")
        self._accept(ready)
        self._enter(LinkState.LOADED)
        self.start(self._receiver)
        return ready.description

    def send(self, command: Command) -> None:
        """Send a command and return immediately. It is lost if no worker runs.

        Raise any exception of pickling the command.
        """
        if self._connection is not None:
            self._connection.send(command)

    async def stop(self) -> None:
        """End the process, and return when the step in progress, if any, is done. Do nothing before the launch."""
        if self.state in _WITHOUT_WORKER:
            return
        if self.state is not LinkState.STOPPING:
            running = self._connection if self.state is LinkState.RUNNING else None
            self._enter(LinkState.STOPPING)
            self._stop_requested.set()
            if running is not None and not running.ended.done():
                running.send(StopCore())
                await asyncio.wait([running.ended], timeout=_STOP_S)
            if self._worker is not None:
                self._worker.process.kill()  # a process that loads, or does not finish its step in time
        if self._work is not None:
            await asyncio.wait([self._work])
        if self.state is LinkState.STOPPING:  # no supervisor has ended the process
            await self._end_worker()
            self._enter_stopped()

    def _enter(self, state: LinkState) -> None:
        if state not in NEXT_STATES[self.state]:
            raise ValueError(f"{self._name}: the engine's process is {self.state.value} and can't be {state.value}")
        self.state = state
        if self._cache_file is not None and state in {LinkState.STOPPED, LinkState.DEAD}:
            self._cache_file.free()

    def _enter_stopped(self) -> None:
        if self.state is LinkState.STOPPING:
            self._enter(LinkState.STOPPED)

    def _load(self, worker: WorkerProcess) -> Ready:
        """Launch the worker and wait until it has loaded, on any thread. Raise ModelLoadError."""
        began = time.monotonic()
        try:
            worker.launch(self._engine_spec, heartbeat_interval_s=self._heartbeat_interval_s)
            ready = worker.until_ready()
        except WorkerDied as error:
            raise ModelLoadError(f"{self._name}: the engine's process died while loading the model: {error}") from error
        self._launch_s = time.monotonic() - began
        return ready

    def _load_again(self, worker: WorkerProcess) -> Ready:
        """Load what the first launch loaded, or the plan, on any thread. Raise ModelLoadError or ModelChanged."""
        ready = self._load(worker)
        if not self._is_expected(ready.description):
            worker.kill()
            raise ModelChanged(f"{self._name}: the model's files have changed since they were loaded")
        return ready

    def _accept(self, ready: Ready) -> None:
        """Expect the core that was loaded from all later launches."""
        self._engine_spec = self._engine_spec.with_arguments(ready.reload_arguments)
        self._is_expected = partial(eq, ready.description)

    def _attach(self) -> WorkerConnection:
        """Enter RUNNING, and read the reports of the worker that has loaded the core."""
        self._enter(LinkState.RUNNING)
        assert self._worker is not None  # noqa: S101  every way to RUNNING has loaded one
        self._ready_at = time.monotonic()
        self._connection = WorkerConnection(self._worker, self._receiver.on_report)
        self._connection.open()
        return self._connection

    async def _supervise(self, connection: WorkerConnection) -> None:
        """Restart the process whenever it dies, until it is stopped or dies too often."""
        num_deaths = 0
        while True:
            died = await connection.ended
            ending = await self._end_worker()
            reason: Exception | None = WorkerDied(f"{died} ({ending})")
            if time.monotonic() - self._ready_at > self._restarts.steady_s:
                num_deaths = 0
            while reason is not None:
                num_deaths += 1
                if self._is_stopped() or not self._may_restart(reason, num_deaths):
                    return
                await self._wait_for_stop(self._restarts.delay_s(num_deaths))
                if self._is_stopped():
                    return
                self._enter(LinkState.RELOADING)
                reason = await self._try_load()
                if reason is not None or self.state is LinkState.STOPPING:
                    await self._end_worker()
            if self._is_stopped():
                return
            connection = self._attach()
            self._receiver.on_restart()
            _log.info("%s: the engine's process was restarted", self._name)

    def _is_stopped(self) -> bool:
        """Complete a stop that was requested, once the worker has ended. Return False if none was."""
        self._enter_stopped()
        return self.state is LinkState.STOPPED

    def _may_restart(self, reason: Exception, num_deaths: int) -> bool:
        """Report a death. Return False if the process must not be restarted."""
        if isinstance(reason, ModelChanged) or num_deaths >= self._restarts.max_deaths:
            _log.error("%s: the engine's process has died %d times: %s", self._name, num_deaths, reason)
            self._enter(LinkState.DEAD)
            self._receiver.on_death(reason, None)
            return False
        delay_s = self._restarts.delay_s(num_deaths)
        message = "%s: the engine's process has died and will be restarted in %.1f s: %s"
        _log.error(message, self._name, delay_s, reason)
        self._enter(LinkState.WAITING)
        self._receiver.on_death(reason, delay_s + self._launch_s)
        return True

    async def _wait_for_stop(self, delay_s: float) -> None:
        """Return when a stop is requested, or after `delay_s` seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._stop_requested.wait()

    async def _try_load(self) -> Exception | None:
        """Load the model again in a new process. Return the error if that fails."""
        try:
            self._worker = next_worker()
            await asyncio.to_thread(self._load_again, self._worker)
        except Exception as error:  # noqa: BLE001  after any error the launch is retried
            return error
        return None

    async def _end_worker(self) -> str:
        """End the process if it still runs, and return how it ended."""
        worker, self._worker = self._worker, None
        return "no worker process was running" if worker is None else await worker.end()
