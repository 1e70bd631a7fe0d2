"""Speculation: drafts change no token, and are computed only if they pay off."""

from __future__ import annotations

import random
import statistics
from collections import abc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.engine.core.drafts.drafter import DraftRequest
from service.engine.core.drafts.prompt_drafter import PromptDrafter
from service.engine.core.drafts.row_times import RowTimes
from service.engine.core.drafts.speculation import Speculation
from service.engine.core.engine_core import SampledToken
from service.engine.core.step import Step
from service.generation.errors import SequenceError
from service.generation.outputs.output import FinishReason
from service.generation.requests.parameters import LogprobsOptions
from tests.engine.core.drafters import SumDrafter
from tests.engine.core.drafts.random_answers import check_random_answers
from tests.engine.fakes import Bench, Clock, config_of, group_of, request
from tests.engine.paged_runner import PagedRunner, say, sums


class RowTimedRunner(PagedRunner):
    """Takes a fixed time per step and per row, with noise."""

    def __init__(self, clock: Clock, step_s: float, row_s: float, noise: float = 0.0, seed: int = 0) -> None:
        super().__init__()
        self.clock = clock
        self._step_s, self._row_s, self._noise = step_s, row_s, noise
        self._random = random.Random(seed)

    def run(self, step: Step) -> list[SampledToken | SequenceError | None]:
        seconds = self._step_s + self._row_s * step.num_tokens
        self.clock.now += seconds * self._random.lognormvariate(0, self._noise)
        return super().run(step)


class SlowDrafter(PromptDrafter):
    """Takes a fixed time per search, and finds nothing."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        super().__init__()
        self.num_searches = 0
        self._clock, self._seconds = clock, seconds

    def propose(self, requests: abc.Sequence[DraftRequest]) -> list[list[int]]:
        self.num_searches += 1
        self._clock.now += self._seconds
        return [[] for _ in requests]


def test_accepted_drafts_yield_several_tokens_per_step() -> None:
    """Accepted drafts yield several tokens per step, and the stats count them."""
    bench = Bench(drafter=SumDrafter())
    bench.add(request("hello", max_tokens=40, ignore_eos=True))
    bench.run()
    assert bench.tokens() == sums(b"hello", 40, 0)
    stats = bench.core.stats()
    assert stats.num_steps < 10
    assert stats.num_accepted_draft_tokens == 40 - stats.num_steps
    assert stats.num_computed_tokens == len("hello") + 39
    bench.assert_idle()


def test_rejected_drafts_change_nothing_and_soon_end() -> None:
    """If every draft is rejected, the tokens are the same and drafting soon stops."""
    drafter = SumDrafter(wrong=1.0)
    bench = Bench(drafter=drafter)
    bench.add(request("hello", max_tokens=100, ignore_eos=True))
    bench.run()
    assert bench.tokens() == sums(b"hello", 100, 0)
    stats = bench.core.stats()
    assert stats.num_accepted_draft_tokens == 0
    assert stats.num_draft_tokens > 0
    bench.assert_idle()
    assert not drafter.kept


@settings(max_examples=60)
@given(data=st.data())
def test_drafts_do_not_change_answers(data: st.DataObject) -> None:
    """With any rate of correct drafts, any cache and any batch, the tokens are those without drafts."""
    wrong, is_costly = data.draw(st.sampled_from([0.0, 0.2, 0.7, 1.0]), "wrong"), data.draw(st.booleans(), "is_costly")
    drafter = SumDrafter(wrong, is_costly=is_costly)
    bench = check_random_answers(data, lambda _: drafter)
    assert not drafter.kept
    for outputs in bench.outputs.values():
        assert [output.finish_reason is not None for output in outputs] == [False] * (len(outputs) - 1) + [True]


@pytest.mark.parametrize(
    ("fields", "text", "reason"),
    [
        ({"max_tokens": 11}, "abcabcabcab", FinishReason.LENGTH),
        ({"stop": ["cabcabca"], "max_tokens": 60}, "ab", FinishReason.STOP_SEQUENCE),
        ({"max_tokens": 60}, "abcabcabcabcabcabc", FinishReason.END_OF_TEXT),
        ({"max_tokens": 60, "min_tokens": 5, "logprobs": LogprobsOptions()}, "abc" * 6, FinishReason.END_OF_TEXT),
    ],
)
def test_answer_ends_within_drafts_as_without(fields: dict[str, object], text: str, reason: FinishReason) -> None:
    """An answer that ends within its drafts by length, stop string or end token reports nothing of the later drafts."""
    bench = Bench(rule=say("abc" * 6), drafter=PromptDrafter())
    bench.add(request("abcabcabcabc", **fields))  # type: ignore[arg-type]
    bench.run()
    assert bench.text() == text
    assert bench.outputs[0, 0][-1].finish_reason is reason
    assert bench.core.stats().num_accepted_draft_tokens > 0
    bench.assert_idle()


def test_drafts_take_no_blocks_from_others() -> None:
    """No sequence is preempted for drafts in a cache that is just large enough."""
    bench = Bench(config_of(num_blocks=10, max_model_len=20), drafter=SumDrafter())
    for _ in range(2):
        bench.add(request("abcd", max_tokens=16, ignore_eos=True))
    bench.run()
    stats = bench.core.stats()
    assert stats.num_preemptions == 0
    assert stats.num_accepted_draft_tokens > 0


def test_sequence_that_fails_within_drafts_reports_one_error() -> None:
    """The error is reported once, and the other sequence continues."""
    bench = Bench(drafter=SumDrafter())
    bench.add(request("hello", max_tokens=40, ignore_eos=True))
    bench.add(request("world", max_tokens=40, ignore_eos=True))
    for _ in range(4):
        bench.step()
    bench.runner.bad_sequences.add((0, 0))
    bench.run()
    assert [type(error) for error in bench.errors[0]] == [SequenceError]
    assert bench.tokens(1) == sums(b"world", 40, 0)
    bench.assert_idle()


def test_costly_drafts_are_requested_only_if_they_pay_off() -> None:
    """A drafter that is always wrong is soon not called any more."""
    drafter = SumDrafter(wrong=1.0, is_costly=True)
    clock = Clock()
    bench = Bench(clock=clock, runner=RowTimedRunner(clock, 0.0, 0.001), drafter=drafter)
    bench.add(request("hello", max_tokens=100, ignore_eos=True))
    bench.run()
    stats = bench.core.stats()
    assert drafter.num_proposed == stats.num_draft_tokens < 20
    assert bench.tokens() == sums(b"hello", 100, 0)


def test_drafts_stop_if_rows_cost_more_than_they_gain() -> None:
    """If each row takes as long as the rest of the step, a draft with a probability of 0.5 does not pay off."""
    expensive, cheap = RowTimes(), RowTimes()
    for num_rows in (1, 2, 4, 8):
        expensive.record(num_rows, 0, 0.01 * num_rows)
        cheap.record(num_rows, 0, 0.01 + 0.0001 * num_rows)
    assert expensive.best_number(1, [0.5, 0.25]) == 0
    assert expensive.min_probability(1) > 0.8
    assert cheap.best_number(1, [0.5, 0.25, 0.1, 0.001]) == 3
    assert cheap.min_probability(1) == pytest.approx(1.15 * 0.0001 / 0.0101)


def test_first_draft_may_cost_more_than_the_others() -> None:
    """If any draft adds a fixed time to a step, either many drafts pay off or none, however cheap further ones are."""
    times = RowTimes()
    for num_drafts in (0, 1, 0, 8, 0, 4, 0, 16, 0, 2, 0, 12) * 20:
        times.record(1, num_drafts, 0.25 + (0.15 + 0.02 * num_drafts if num_drafts else 0))
    assert times.step_s(1) == pytest.approx(0.25, rel=0.02)
    assert times.best_number(1, [0.6]) == 0
    assert times.best_number(1, [0.6, 0.36, 0.22, 0.13, 0.08]) == 4
    assert times.best_number(1, [0.97**n for n in range(1, 17)]) == 16


def test_failed_searches_take_little_time() -> None:
    """If a failed search takes a tenth of a step, most steps skip it. Long steps never skip it."""
    searches = {}
    for step_s in (0.1, 100.0):
        clock = Clock()
        drafter = SlowDrafter(clock, 0.01)
        speculation = Speculation(drafter, clock)
        sequence = group_of(request("abcdefgh", max_tokens=500)).sequences[0]
        for _ in range(160):
            if not speculation.is_paused():
                speculation.drafts([sequence], 1000, lambda sequence: 100)
            speculation.record_step_time(1, 0, step_s)
        searches[step_s] = drafter.num_searches
    assert searches[0.1] <= 16
    assert searches[100.0] > 150


def test_the_first_drafts_are_at_most_as_many_as_sequences() -> None:
    """Until the cost of rows is known, the number of drafts is limited, so that no first step is much longer."""
    times = RowTimes()
    assert times.min_probability(4) > 1
    times.record(4, 0, 1.0)
    assert times.min_probability(4) == 0
    assert times.best_number(4, [0.9] * 15) == 4
    times.record(8, 0, 1.0)
    assert times.best_number(4, [0.9] * 15) == 15


def test_one_slow_step_counts_little() -> None:
    """A single slow step, caused by other work on the machine, hardly changes the number of drafts."""
    times = RowTimes()
    for num_rows in (1, 2, 1, 3, 1, 4) * 5:
        times.record(num_rows, 0, 0.01 + 0.001 * num_rows)
    before = times.best_number(1, [0.9**n for n in range(1, 17)])
    times.record(4, 0, 5.0)
    assert times.best_number(1, [0.9**n for n in range(1, 17)]) >= before // 2 > 2


def test_a_slow_step_with_drafts_does_not_end_drafting_forever() -> None:
    """If the only step with more rows was slow by chance, drafting resumes.

    Otherwise nothing would measure its cost again.
    """
    times = RowTimes()
    for num_rows, seconds in ((1, 0.001), (1, 0.001), (2, 0.002)):
        times.record(num_rows, 0, seconds)
    for _ in range(1_000):
        times.record(1, 0, 0.001)
    assert times.best_number(1, [0.5]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [1.0, 0.9, 0.5, 0.2, 0.02])
@pytest.mark.parametrize(
    "num_streams", [1, pytest.param(4, marks=pytest.mark.long), pytest.param(16, marks=pytest.mark.long)]
)
@pytest.mark.parametrize("row_s", [0.067, 0.01], ids=["small model", "large model"])
def test_drafts_never_cost_much_and_gain_much_if_they_are_right(wrong: float, num_streams: int, row_s: float) -> None:
    """By a simulated clock with noise, a run takes at most 3 % longer than without drafts.

    A step takes 0.13 s, and a fixed time for each row.
    """
    ratios = []
    for seed in range(3):
        seconds = []
        for drafter in (None, SumDrafter(wrong)):
            clock = Clock()
            config = config_of(num_blocks=2000, max_model_len=200, max_batch_sequences=16)
            runner = RowTimedRunner(clock, 0.13, row_s, noise=0.15, seed=seed)
            bench = Bench(config, clock=clock, runner=runner, drafter=drafter)
            for _ in range(2):
                for index in range(num_streams):
                    bench.add(request(f"hello {index}", max_tokens=100, ignore_eos=True))
                began = clock.now
                bench.run()
            seconds.append(clock.now - began)
        ratios.append(seconds[0] / seconds[1])
    assert statistics.median(ratios) > (1.2 if wrong < 0.3 and num_streams == 1 else 0.97)


def test_each_sequence_has_drafts_by_its_own_record() -> None:
    """In the same steps, a sequence with accepted drafts gets more, and one with rejected drafts gets none."""
    speculation = Speculation(PromptDrafter())
    right, wrong = (group_of(request("abcdabcdabc", max_tokens=500)).sequences[0] for _ in range(2))
    for rows in (2, 3, 4, 6, 8, 12, 16, 24, 32):
        speculation.record_step_time(rows, 0, 1 + rows / 40)
    counts = []
    for _ in range(30):
        drafts = speculation.drafts([right, wrong], 1000, lambda sequence: 100)
        counts.append([len(drafts.get(sequence, [])) for sequence in (right, wrong)])
        for sequence, draft in drafts.items():
            speculation.record(sequence, len(draft), len(draft) if sequence is right else 0)
    assert min(count for count, _ in counts[5:]) >= 8
    assert sum(count > 0 for _, count in counts[5:]) <= 5


def test_drafts_of_a_step_are_limited_even_if_rows_are_free() -> None:
    """The number of drafts per step is limited, since each takes a row of logits as large as the vocabulary."""
    speculation = Speculation(PromptDrafter())
    sequences = [group_of(request("abcdabcdabc", max_tokens=500)).sequences[0] for _ in range(16)]
    for rows in (16, 300):
        speculation.record_step_time(rows, 0, 1.0)
    drafts = speculation.drafts(sequences, 1000, lambda sequence: 100)
    assert sum(map(len, drafts.values())) == 128
