"""Who compiles next: by hand, with constraints that are compiled when the test says so."""

from __future__ import annotations

import math
import queue
import threading

from service.engine.core.compilation import Compilations
from service.engine.core.sequences.constraint_state import ConstraintState
from service.engine.interface.messages import Report
from service.generation.errors import UnsupportedConstraint
from service.generation.formats.constraint import Constraint, Grammar
from tests.waiting import GUARD_S


class Hall:
    """Compilations that begin at once and end when they may."""

    def __init__(self, max_compile_s: float = math.inf) -> None:
        self.thread_time_s = 0.0  # of every thread
        self.begun: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.reports: queue.SimpleQueue[Report] = queue.SimpleQueue()
        self._may_end = threading.Semaphore(0)
        self.compilations = Compilations(self._compile, max_compile_s, lambda _: self.thread_time_s)
        self.compilations.open(self.reports.put)
        self._serials = iter(range(100))

    def begin(self, caller_id: str, *texts: str) -> list[int]:
        """A caller's constraints; their serials."""
        serials = [next(self._serials) for _ in texts]
        for serial, text in zip(serials, texts, strict=True):
            self.compilations.begin(serial, Constraint(Grammar(text, "grammar")), caller_id)
        return serials

    def end(self, num: int = 1) -> None:
        """So many of those that are compiled are done."""
        self._may_end.release(num)

    def next(self, num: int = 1) -> set[str]:
        """The next that were begun."""
        return {self.begun.get(timeout=GUARD_S) for _ in range(num)}

    def _compile(self, constraint: Constraint) -> ConstraintState:
        assert constraint.grammar
        self.begun.put(constraint.grammar.text)
        self._may_end.acquire()
        raise UnsupportedConstraint("grammar", "it is a test")


def test_a_caller_has_two_threads_and_leaves_one() -> None:
    """It stays free for another, while the first caller's third constraint waits."""
    hall = Hall()
    hall.begin("a", "a1", "a2", "a3")
    assert hall.next(2) == {"a1", "a2"}
    assert hall.begun.empty()
    hall.begin("b", "b1")
    assert hall.next() == {"b1"}
    hall.end(4)
    assert hall.next() == {"a3"}


def test_those_who_wait_take_turns() -> None:
    """One that asks after many of another's comes after the first of them that waits."""
    hall = Hall()
    hall.begin("a", "a1", "a2", "a3", "a4")
    hall.begin("b", "b1", "b2")
    hall.begin("c", "c1")
    assert hall.next(3) == {"a1", "a2", "b1"}
    order: list[str] = []
    for _ in range(4):
        hall.end()
        order += hall.next()
    assert sorted(order) == ["a3", "a4", "b2", "c1"]
    assert order.index("a4") > order.index("c1")
    hall.end(3)


def test_what_is_forgotten_while_it_waits_is_not_compiled() -> None:
    """Nor told of; the one behind it is."""
    hall = Hall()
    serials = hall.begin("a", "a1", "a2", "a3", "a4")
    hall.next(2)
    hall.compilations.forget(serials[2])
    hall.end(3)
    assert hall.next() == {"a4"}
    reports = [hall.reports.get(timeout=GUARD_S) for _ in range(6)]
    assert serials[2] not in [
        *(serial for each in reports for serial in each.started),
        *(e for r in reports for e, _ in r.errors),
    ]


def test_what_waits_at_the_close_is_not_compiled() -> None:
    """Threads that compile go on to their end, and take up nothing more."""
    hall = Hall()
    hall.begin("a", "a1", "a2", "a3")
    hall.next(2)
    hall.compilations.close()
    hall.end(2)
    reports = [hall.reports.get(timeout=GUARD_S) for _ in range(4)]
    assert sum(len(each.errors) for each in reports) == 2
    assert hall.begun.empty()


def test_a_constraint_fails_by_its_threads_time() -> None:
    """It fails once, while its thread goes on; a constraint within the limit is compiled as ever."""
    hall = Hall(max_compile_s=5)
    hall.thread_time_s = 100  # used before
    (serial,) = hall.begin("a", "a1")
    hall.next()
    assert hall.reports.get(timeout=GUARD_S).started == [serial]
    hall.thread_time_s = 105.5
    ((failed, error),) = hall.reports.get(timeout=GUARD_S).errors
    assert failed == serial
    assert isinstance(error, UnsupportedConstraint)
    assert "longer than 5 s of processor time" in str(error)
    hall.end()
    (other,) = hall.begin("a", "a2")
    hall.next()
    hall.thread_time_s += 4.5
    hall.end()
    assert hall.reports.get(timeout=GUARD_S).started == [other]
    ((refused, error),) = hall.reports.get(timeout=GUARD_S).errors
    assert refused == other
    assert "it is a test" in str(error)
    hall.compilations.close()
