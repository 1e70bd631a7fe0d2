"""The encoder's step: the order of inputs, the size of batches, and inputs that are no longer computed."""

from __future__ import annotations

from typing import Any

import pytest

from service.engine.core.encoder_core import EncoderCore
from service.engine.interface.messages import Abort, Add, InputVector, Report
from service.generation.errors import DeadlineExceeded
from tests.engine.encoder_fakes import HandRunner, embedding
from tests.engine.fakes import Clock
from tests.engine.vectors import vector_of


class Bench:
    """An encoder core with a HandRunner.

    Each request may have its own token id, so that batches show their requests.
    """

    def __init__(self, max_batch_tokens: int) -> None:
        self.clock = Clock()
        self.runner = HandRunner()
        self.core = EncoderCore(self.runner, max_batch_tokens, self.clock)
        self.vectors: dict[int, dict[int, list[float]]] = {}
        self.num_added = 0

    def add(self, *lengths: int, token_id: int = 1, **fields: Any) -> int:
        """Add a request with inputs of these lengths, and return its serial."""
        serial, self.num_added = self.num_added, self.num_added + 1
        self.core.receive(Add(serial, embedding(*lengths, token_id=token_id, **fields), self.clock.now))
        return serial

    def step(self) -> Report:
        self.core.step()
        report = self.core.report()
        for serial, output in report.outputs:
            assert isinstance(output, InputVector)
            vector = output.vector.tolist()
            assert self.vectors.setdefault(serial, {}).setdefault(output.input_index, vector) == vector
        return report

    def run(self) -> list[list[int]]:
        """Run all steps, and return the token of each input, by batch."""
        while self.core.has_work:
            self.step()
        return [[each[0] for each in batch] for batch in self.runner.batches]


def test_core_computes_every_input_once() -> None:
    """Each request gets one vector per input, regardless of the batches."""
    bench = Bench(max_batch_tokens=7)
    lengths = [(3, 1, 7, 2), (5,), (1, 1, 1)]
    serials = [bench.add(*each, token_id=index) for index, each in enumerate(lengths)]
    bench.run()
    for serial in serials:
        inputs = embedding(*lengths[serial], token_id=serial).inputs
        assert bench.vectors[serial] == {index: vector_of(each) for index, each in enumerate(inputs)}
    assert sum(map(len, bench.runner.batches)) == 8
    assert bench.core.stats().num_waiting == 0


def test_batches_take_one_input_of_each_request_in_turn() -> None:
    """A request with many inputs shares batches with small ones, and turns continue across batches."""
    bench = Bench(max_batch_tokens=4)
    bench.add(*[1] * 7, token_id=1)
    bench.add(1, 1, 1, token_id=2)
    bench.add(1, token_id=3)
    assert bench.run() == [[1, 2, 3, 1], [2, 1, 2, 1], [1, 1, 1]]


def test_turns_continue_across_batches() -> None:
    """If there are more requests than a batch holds, each gets its first turn before any gets its second."""
    bench = Bench(max_batch_tokens=2)
    for token_id in (1, 2, 3):
        bench.add(1, 1, token_id=token_id)
    assert bench.run() == [[1, 2], [3, 1], [2, 3]]


def test_late_request_of_one_input_overtakes_a_large_one() -> None:
    """A small request that arrives while thousands of inputs are queued is in the next batch."""
    bench = Bench(max_batch_tokens=8)
    bench.add(*[8] * 2000, token_id=1)
    bench.step()
    late = bench.add(1, token_id=2)
    bench.step()
    bench.step()
    assert late in bench.vectors


@pytest.mark.parametrize(
    ("max_batch_tokens", "lengths", "batches"),
    [
        (8, [8, 1], [[8], [1]]),
        (8, [3, 5, 1], [[3, 5], [1]]),
        (8, [9, 1], [[9], [1]]),
        (1, [1, 1], [[1], [1]]),
    ],
    ids=["full", "exactly", "one above the limit", "one each"],
)
def test_batch_keeps_its_token_limit(max_batch_tokens: int, lengths: list[int], batches: list[list[int]]) -> None:
    """No batch exceeds the limit, unless it is a single input that exceeds the limit alone."""
    bench = Bench(max_batch_tokens)
    bench.add(*lengths)
    bench.run()
    assert [[len(each) for each in batch] for batch in bench.runner.batches] == batches


def test_lower_priority_value_comes_first() -> None:
    """All inputs of a lower priority value precede those of a higher one, regardless of their arrival."""
    bench = Bench(max_batch_tokens=2)
    bench.add(1, 1, token_id=1)
    bench.add(1, 1, 1, token_id=2, priority=-1)
    assert bench.run() == [[2, 2], [2, 1], [1]]


def test_aborted_request_is_not_computed() -> None:
    """An aborted request is dropped, even after it has started. Aborting it again, or after its end, does nothing."""
    bench = Bench(max_batch_tokens=2)
    left = bench.add(1, 1, 1, token_id=1)
    ended = bench.add(1, token_id=2)
    bench.step()
    for _ in range(2):
        bench.core.receive(Abort(left))
        bench.core.receive(Abort(ended))
    assert not bench.core.has_work
    assert bench.core.stats().num_waiting == 0
    assert bench.run() == [[1, 2]]


def test_request_past_its_deadline_is_not_computed() -> None:
    """An expired request ends with the next step, whether it has started or not; other requests are computed."""
    bench = Bench(max_batch_tokens=4)
    late = bench.add(1, 1, token_id=1, deadline=bench.clock.now + 5)
    begun = bench.add(4, 4, token_id=2, deadline=bench.clock.now + 7)
    bench.add(1, token_id=3)
    bench.clock.now += 5
    assert [(serial, type(error)) for serial, error in bench.step().errors] == [(late, DeadlineExceeded)]
    bench.step()
    bench.clock.now += 5
    report = bench.step()
    assert [serial for serial, _ in report.errors] == [begun]
    assert late not in bench.vectors
    assert not bench.core.has_work
    assert bench.runner.batches == [[[2] * 4], [[3]]]


def test_stats_count_inputs_and_tokens() -> None:
    """The stats count queued requests by inputs, and computed steps with their sizes and tokens."""
    bench = Bench(max_batch_tokens=4)
    bench.add(3, 1, 2)
    assert bench.core.stats().num_waiting == 3
    bench.step()
    stats = bench.core.stats()
    assert (stats.num_waiting, stats.num_steps, stats.step_sequences, stats.step_tokens) == (1, 1, 2, 4)
    bench.step()
    stats = bench.core.stats()
    assert (stats.num_waiting, stats.num_steps, stats.step_sequences, stats.step_tokens) == (0, 2, 1, 2)
    assert stats.num_computed_tokens == 6


def test_core_serves_keys_by_their_service_so_far() -> None:
    """A key with one text is in the next batch although another key has a thousand queued.

    A key of twice the weight gets twice the service. Priorities are compared within a key only.
    """
    bench = Bench(max_batch_tokens=40)
    flood = bench.add(*[10] * 1000, caller_id="flooder", priority=-100)
    bench.step()
    polite = bench.add(10, caller_id="polite")
    heavy = bench.add(*[10] * 60, caller_id="heavy", weight=2.0)
    bench.step()
    assert len(bench.vectors[polite]) == 1
    before = len(bench.vectors[flood])
    for _ in range(9):
        bench.step()
    assert abs(len(bench.vectors[heavy]) - 2 * (len(bench.vectors[flood]) - before)) <= 8
