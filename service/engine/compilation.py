"""The threads that compile constraints beside the engine's steps.

How long a compilation may take, and who waits for it, is the front's affair: it aborts what it no longer wants.
"""

from __future__ import annotations

import logging
from collections import abc
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import partial
from typing import TypeAlias

from service.engine.constraint_state import ConstraintState
from service.engine.mail import Compiled, Report, Tell
from service.generation.constraint import Constraint
from service.generation.errors import EngineError, UnsupportedConstraint

_NUM_THREADS = 2

_log = logging.getLogger(__name__)

CompileConstraint: TypeAlias = abc.Callable[[Constraint], ConstraintState]  # raises UnsupportedConstraint


class Compilations:
    """Constraints that are being compiled, or are and may be asked for. Only the engine's thread calls it."""

    def __init__(self, compile_constraint: CompileConstraint | None) -> None:
        self._compile_constraint = compile_constraint or _refuse
        self._threads = ThreadPoolExecutor(_NUM_THREADS, thread_name_prefix="constraint")
        self._futures: dict[int, Future[tuple[ConstraintState, Compiled]]] = {}

    def open(self, tell: Tell) -> None:
        """`tell` is told when a compilation has begun and when it is done."""
        self._tell = tell

    def begin(self, serial: int, constraint: Constraint) -> None:
        """Have it compiled as soon as a thread is free."""
        future = self._threads.submit(self._compile, serial, constraint)
        self._futures[serial] = future
        future.add_done_callback(partial(self._tell_end, serial))

    def state(self, serial: int) -> ConstraintState:
        """The first state of a constraint of which it was told that it is done; others must follow copies of it."""
        state, _ = self._futures[serial].result(timeout=0)
        return state

    def forget(self, serial: int) -> None:
        """Drop what `serial` names; no thread takes it up any more. Does nothing if there is none."""
        if future := self._futures.pop(serial, None):
            future.cancel()

    def close(self) -> None:
        """End the threads; one that compiles is left to itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _compile(self, serial: int, constraint: Constraint) -> tuple[ConstraintState, Compiled]:
        self._tell(Report(started=[serial]))
        try:
            state = self._compile_constraint(constraint)
            return state, Compiled(state.shortest())
        except EngineError:
            raise
        except BaseException as error:  # foreign code, which may even panic
            _log.exception("a constraint could not be compiled")
            raise UnsupportedConstraint(_field(constraint), "the constraint can't be compiled") from error

    def _tell_end(self, serial: int, future: Future[tuple[ConstraintState, Compiled]]) -> None:
        try:
            _, compiled = future.result()
        except CancelledError:
            return
        except EngineError as error:
            self._tell(Report(errors=[(serial, error)]))
        else:
            self._tell(Report(outputs=[(serial, compiled)]))


def _refuse(constraint: Constraint) -> ConstraintState:
    raise UnsupportedConstraint(_field(constraint), "the model has no token that ends a text")


def _field(constraint: Constraint) -> str:
    return constraint.grammar.field if constraint.grammar else "constraint"
