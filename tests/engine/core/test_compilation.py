"""The order of compilations, with constraints that finish compiling when the test allows it."""

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


class CompilationBench:
    """Compilations that start at once and end when the test calls `end`."""

    def __init__(self, max_compile_s: float = math.inf) -> None:
        self.thread_time_s = 0.0  # of every thread
        self.begun: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.reports: queue.SimpleQueue[Report] = queue.SimpleQueue()
        self._may_end = threading.Semaphore(0)
        self.compilations = Compilations(self._compile, max_compile_s, lambda _: self.thread_time_s)
        self.compilations.open(self.reports.put)
        self._serials = iter(range(100))

    def begin(self, caller_id: str, *texts: str) -> list[int]:
        """Enqueue a caller's constraints, and return their serials."""
        serials = [next(self._serials) for _ in texts]
        for serial, text in zip(serials, texts, strict=True):
            self.compilations.begin(serial, Constraint(Grammar(text, "grammar")), caller_id)
        return serials

    def end(self, num: int = 1) -> None:
        """Let `num` of the running compilations end."""
        self._may_end.release(num)

    def next(self, num: int = 1) -> set[str]:
        """Return the texts of the next `num` constraints that started."""
        return {self.begun.get(timeout=GUARD_S) for _ in range(num)}

    def _compile(self, constraint: Constraint) -> ConstraintState:
        assert constraint.grammar
        self.begun.put(constraint.grammar.text)
        self._may_end.acquire()
        raise UnsupportedConstraint("grammar", "rejected by the test")


def test_a_caller_has_two_threads_and_leaves_one() -> None:
    """One thread stays free for another caller while the first caller's third constraint is queued."""
    bench = CompilationBench()
    bench.begin("a", "a1", "a2", "a3")
    assert bench.next(2) == {"a1", "a2"}
    assert bench.begun.empty()
    bench.begin("b", "b1")
    assert bench.next() == {"b1"}
    bench.end(4)
    assert bench.next() == {"a3"}


def test_slow_constraints_do_not_delay_others_of_their_caller() -> None:
    """A compilation that uses much processor time leaves its slot to the next constraint, also of the same caller."""
    bench = CompilationBench()
    bench.begin("", "slow1", "slow2", "a1")
    assert bench.next(2) == {"slow1", "slow2"}
    assert bench.begun.empty()
    bench.thread_time_s += 1
    assert bench.next() == {"a1"}
    bench.end(3)


def test_slow_constraints_are_bounded_by_caller() -> None:
    """Three slow constraints of a caller run without a slot and two in slots; another caller's begin meanwhile."""
    bench = CompilationBench()
    bench.begin("a", *(f"a{index}" for index in range(9)))
    for num in (2, 2, 1):  # two have slots, then the first two are slow, then a third
        bench.next(num)
        bench.thread_time_s += 1
    bench.begin("b", "b1", "b2")
    assert bench.next() == {"b1"}
    assert bench.begun.empty()
    bench.thread_time_s += 1
    assert bench.next() == {"b2"}
    bench.end(20)
    assert bench.next(4) == {"a5", "a6", "a7", "a8"}


def test_callers_with_queued_constraints_take_turns() -> None:
    """A new caller's constraint precedes the later ones of a caller with many queued constraints."""
    bench = CompilationBench()
    bench.begin("a", "a1", "a2", "a3", "a4")
    bench.begin("b", "b1", "b2")
    bench.begin("c", "c1")
    assert bench.next(3) == {"a1", "a2", "b1"}
    order: list[str] = []
    for _ in range(4):
        bench.end()
        order += bench.next()
    assert sorted(order) == ["a3", "a4", "b2", "c1"]
    assert order.index("a4") > order.index("c1")
    bench.end(3)


def test_a_constraint_forgotten_while_queued_is_not_compiled() -> None:
    """A dropped constraint is neither compiled nor reported; the next one in the queue is compiled."""
    bench = CompilationBench()
    serials = bench.begin("a", "a1", "a2", "a3", "a4")
    bench.next(2)
    bench.compilations.forget(serials[2])
    bench.end(3)
    assert bench.next() == {"a4"}
    reports = [bench.reports.get(timeout=GUARD_S) for _ in range(6)]
    assert serials[2] not in [
        *(serial for each in reports for serial in each.started),
        *(e for r in reports for e, _ in r.errors),
    ]


def test_constraints_queued_at_the_close_are_not_compiled() -> None:
    """After the close, running compilations end and no queued one starts."""
    bench = CompilationBench()
    bench.begin("a", "a1", "a2", "a3")
    bench.next(2)
    bench.compilations.close()
    bench.end(2)
    reports = [bench.reports.get(timeout=GUARD_S) for _ in range(4)]
    assert sum(len(each.errors) for each in reports) == 2
    assert bench.begun.empty()


def test_a_constraint_fails_by_its_threads_time() -> None:
    """A constraint fails once it exceeds its processor time, although its thread continues.

    A constraint within the limit is compiled as usual.
    """
    bench = CompilationBench(max_compile_s=5)
    bench.thread_time_s = 100  # used by earlier compilations
    (serial,) = bench.begin("a", "a1")
    bench.next()
    assert bench.reports.get(timeout=GUARD_S).started == [serial]
    bench.thread_time_s = 105.5
    ((failed, error),) = bench.reports.get(timeout=GUARD_S).errors
    assert failed == serial
    assert isinstance(error, UnsupportedConstraint)
    assert "longer than 5 s of processor time" in str(error)
    bench.end()
    (other,) = bench.begin("a", "a2")
    bench.next()
    bench.thread_time_s += 4.5
    bench.end()
    assert bench.reports.get(timeout=GUARD_S).started == [other]
    ((failed, error),) = bench.reports.get(timeout=GUARD_S).errors
    assert failed == other
    assert "rejected by the test" in str(error)
    bench.compilations.close()
