"""Threads that compile constraints while the engine computes steps.

The limit of a compilation is in processor time, so that a busy machine does not make a constraint invalid. A slow
compilation gives its slot to the next one, so that the constraints of other requests, also of the same key, do not wait
for it.
The client aborts compilations that are no longer needed, and those that other work delays for too long.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, OrderedDict, abc, deque
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from service.engine.core.sequences.constraint_state import ConstraintState
from service.engine.interface.messages import Compiled, Emit, Report
from service.generation.errors import EngineError, UnsupportedConstraint
from service.generation.formats.constraint import Constraint

MAX_COMPILE_S = 5.0  # of processor time, per constraint

_CHECK_S = 0.1  # interval at which the processor time of running compilations is checked
_NUM_SLOTS = 3
_MAX_OF_CALLER = 2  # slots per API key, so that one key's constraints leave a slot to the others
_SLOW_S = 0.25  # of processor time, after which a compilation is slow; usual schemas take a hundredth of it
_MAX_SLOW = 5  # slow compilations, which need no slot
_MAX_SLOW_OF_CALLER = 3

_log = logging.getLogger(__name__)

CompileConstraint: TypeAlias = abc.Callable[[Constraint], ConstraintState]  # raises UnsupportedConstraint
ThreadTime: TypeAlias = abc.Callable[[int], float]  # the processor time in seconds of a thread, by its identifier


def thread_time_s(thread_id: int) -> float:
    """Return the processor time that a thread has used, in seconds, or the elapsed time if the system lacks it."""
    if hasattr(time, "pthread_getcpuclockid"):
        return time.clock_gettime(time.pthread_getcpuclockid(thread_id))
    return time.monotonic()


@dataclass(frozen=True, slots=True)
class _Job:
    """A constraint to compile, and the future of its result."""

    serial: int
    constraint: Constraint
    caller_id: str
    future: Future[tuple[ConstraintState, Compiled]] = field(default_factory=Future)


@dataclass(slots=True)
class _Compilation:
    """A running job. It runs to its end, since a thread can't be stopped."""

    job: _Job
    began_s: float  # the processor time of its thread
    is_slow: bool = False
    has_failed: bool = False  # by its limit


class Compilations:
    """The constraints that are queued, being compiled or compiled. Only the engine's thread calls it."""

    def __init__(
        self,
        compile_constraint: CompileConstraint | None,
        max_compile_s: float = MAX_COMPILE_S,
        thread_time: ThreadTime = thread_time_s,
    ) -> None:
        """A constraint that takes more than `max_compile_s` of processor time is reported as unsupported."""
        self._compile_constraint = compile_constraint or _reject
        self._max_compile_s = max_compile_s
        self._thread_time = thread_time
        self._threads = ThreadPoolExecutor(_NUM_SLOTS + _MAX_SLOW, thread_name_prefix="constraint")
        self._futures: dict[int, Future[tuple[ConstraintState, Compiled]]] = {}
        self._lock = threading.Condition()  # guards the fields below, which the threads use; notified of changes
        self._compiling: dict[int, _Compilation] = {}  # by thread
        self._is_closed = False
        self._waiting: OrderedDict[str, deque[_Job]] = OrderedDict()  # by caller, in the order of their turns
        self._running: Counter[str] = Counter()  # by caller, those with a slot
        self._slow: Counter[str] = Counter()  # by caller

    def open(self, emit: Emit) -> None:
        """Set the receiver of reports. A compilation is reported when it starts and when it ends."""
        self._emit = emit
        threading.Thread(target=self._watch, name="constraint-limits", daemon=True).start()

    def begin(self, serial: int, constraint: Constraint, caller_id: str) -> None:
        """Enqueue a constraint. Callers with queued constraints take turns."""
        job = _Job(serial, constraint, caller_id)
        self._futures[serial] = job.future
        job.future.add_done_callback(partial(self._report_end, serial))
        with self._lock:
            self._waiting.setdefault(caller_id, deque()).append(job)
            self._start()

    def state(self, serial: int) -> ConstraintState:
        """Return the initial state of a constraint that was reported as compiled; sequences must use copies of it."""
        state, _ = self._futures[serial].result(timeout=0)
        return state

    def forget(self, serial: int) -> None:
        """Drop a constraint. If it is still queued, it is not compiled. Do nothing for an unknown serial."""
        if future := self._futures.pop(serial, None):
            future.cancel()

    def close(self) -> None:
        """Drop the queue and end the threads, without waiting for running compilations."""
        with self._lock:
            self._waiting.clear()
            self._is_closed = True
            self._lock.notify_all()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _start(self) -> None:
        """Start queued jobs in free slots."""
        while self._running.total() < _NUM_SLOTS:
            caller_id = next((each for each in self._waiting if self._running[each] < _MAX_OF_CALLER), None)
            if caller_id is None:
                return
            jobs = self._waiting.pop(caller_id)
            job = jobs.popleft()
            if jobs:
                self._waiting[caller_id] = jobs  # after the other callers
            if job.future.set_running_or_notify_cancel():
                self._running[caller_id] += 1
                self._threads.submit(self._run, job)

    def _run(self, job: _Job) -> None:
        thread_id = threading.get_ident()
        with self._lock:
            self._compiling[thread_id] = _Compilation(job, self._thread_time(thread_id))
            self._lock.notify_all()
        result: Future[tuple[ConstraintState, Compiled]] = Future()
        try:
            result.set_result(self._compile(job.serial, job.constraint))
        except BaseException as error:  # noqa: BLE001  it becomes the future's exception
            result.set_exception(error)
        with self._lock:
            ended = self._compiling.pop(thread_id)
            counter = self._slow if ended.is_slow else self._running
            counter -= Counter([job.caller_id])
            self._start()
        if ended.has_failed:
            return
        if failure := result.exception():
            job.future.set_exception(failure)
        else:
            job.future.set_result(result.result())

    def _watch(self) -> None:
        """Move slow compilations out of their slots, and fail those that use more processor time than allowed."""
        while not self._is_closed:
            with self._lock:
                self._lock.wait(_CHECK_S if self._compiling else None)
                jobs = [job for thread_id in list(self._compiling) if (job := self._check(thread_id))]
                self._start()
            message = f"the constraint took longer than {self._max_compile_s:g} s of processor time to compile"
            for job in jobs:
                job.future.set_exception(UnsupportedConstraint(_field(job.constraint), message))

    def _check(self, thread_id: int) -> _Job | None:
        """Release the slot of a thread's compilation if it is slow. Return its job if it must fail now."""
        each = self._compiling[thread_id]
        used_s, caller_id = self._thread_time(thread_id) - each.began_s, each.job.caller_id
        has_capacity = self._slow.total() < _MAX_SLOW and self._slow[caller_id] < _MAX_SLOW_OF_CALLER
        if used_s > _SLOW_S and not each.is_slow and has_capacity:
            each.is_slow = True
            self._running -= Counter([caller_id])
            self._slow[caller_id] += 1
        if used_s <= self._max_compile_s or each.has_failed:
            return None
        each.has_failed = True
        return each.job

    def _compile(self, serial: int, constraint: Constraint) -> tuple[ConstraintState, Compiled]:
        self._emit(Report(started=[serial]))
        try:
            state = self._compile_constraint(constraint)
            return state, Compiled(state.shortest())
        except EngineError:
            raise
        except BaseException as error:  # foreign code, which may even panic
            _log.exception("a constraint could not be compiled")
            raise UnsupportedConstraint(_field(constraint), "the constraint can't be compiled") from error

    def _report_end(self, serial: int, future: Future[tuple[ConstraintState, Compiled]]) -> None:
        try:
            _, compiled = future.result()
        except CancelledError:
            return
        except EngineError as error:
            self._emit(Report(errors=[(serial, error)]))
        else:
            self._emit(Report(outputs=[(serial, compiled)]))


def _reject(constraint: Constraint) -> ConstraintState:
    raise UnsupportedConstraint(_field(constraint), "the model has no token that ends a text")


def _field(constraint: Constraint) -> str:
    return constraint.grammar.field if constraint.grammar else "constraint"
