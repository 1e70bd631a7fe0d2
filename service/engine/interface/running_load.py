"""A load of a model in progress: its bytes, and its end before completion.

The task or thread that carries out a load finds it by `running_load()`, so that the functions that load need no
argument for it. Loads that nobody observes have one, too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass


class LoadCancelled(Exception):  # noqa: N818  the name says what happened
    """The load was cancelled before its end, and has released what it took."""


@dataclass(frozen=True, slots=True)
class LoadedBytes:
    """The bytes of weights that were read. `is_complete` if no more will be, whatever their number."""

    num: int
    total: int
    is_complete: bool = False


class RunningLoad:
    """One load. Its methods may be called on any thread."""

    def __init__(self, on_bytes: Callable[[LoadedBytes], None] = lambda _: None) -> None:
        """`on_bytes` receives the progress, on the thread that makes it."""
        self._on_bytes = on_bytes
        self._lock = threading.Lock()
        self._is_cancelled = False
        self._is_committed = False
        self._interrupts: list[Callable[[], None]] = []

    def report(self, progress: LoadedBytes) -> None:
        """Report progress. Raise LoadCancelled if the load was cancelled."""
        self.check()
        self._on_bytes(progress)

    def check(self) -> None:
        """Raise LoadCancelled if the load was cancelled."""
        if self._is_cancelled:
            raise LoadCancelled

    def cancel(self) -> bool:
        """Interrupt the load, which then raises LoadCancelled. Return False if it can't be cancelled any more."""
        with self._lock:
            if self._is_committed:
                return False
            self._is_cancelled = True
            interrupts = [*self._interrupts]
        for interrupt in interrupts:
            interrupt()
        return True

    def commit(self) -> None:
        """Admit no cancellation any more. Raise LoadCancelled if the load was cancelled before."""
        with self._lock:
            self.check()
            self._is_committed = True

    @contextmanager
    def interruptible(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Call `interrupt` if the load is cancelled during the block, any error of which is LoadCancelled then."""
        with self._lock:
            self.check()
            self._interrupts.append(interrupt)
        try:
            yield
        except Exception as error:
            if self._is_cancelled:
                raise LoadCancelled from error
            raise
        finally:
            with self._lock, suppress(ValueError):
                self._interrupts.remove(interrupt)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Make this the load of the current task or thread during the block."""
        token = _running.set(self)
        try:
            yield
        finally:
            _running.reset(token)


_running: ContextVar[RunningLoad] = ContextVar("running_load", default=RunningLoad())  # noqa: B039  never cancelled


def running_load() -> RunningLoad:
    """Return the load that the current task or thread carries out."""
    return _running.get()
