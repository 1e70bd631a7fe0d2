"""Scheduler: the tokens and blocks of each sequence in the next step."""

from __future__ import annotations

import random

import pytest

from service.engine.core.sequences.sequence import SequenceGroup
from tests.engine.fakes import Bench, config_of, request
from tests.engine.paged_runner import say, sums


def shares(bench: Bench) -> dict[int, int]:
    """Return the number of tokens of each request in the last step, by serial."""
    return dict(bench.runner.steps[-1])


def test_scheduler_has_nothing_to_do_without_requests() -> None:
    """Without requests there is no step."""
    bench = Bench()
    bench.step()
    assert bench.scheduler.schedule(0.0) is None
    assert bench.runner.steps == []


def test_scheduler_computes_a_prompt_and_then_a_token_a_step() -> None:
    """A step computes the missing tokens of a sequence: first its prompt, then each new token."""
    bench = Bench()
    bench.add(request("hello", max_tokens=3))
    bench.run()
    assert bench.runner.steps == [[(0, 5)], [(0, 1)], [(0, 1)]]


def test_scheduler_splits_a_long_prompt_into_steps() -> None:
    """A step computes at most max_batch_tokens, and only the last chunk of a prompt samples a token."""
    bench = Bench(config_of(max_batch_tokens=8, max_batch_sequences=4))
    bench.add(request("x" * 20, max_tokens=1))
    bench.run()
    assert bench.runner.steps == [[(0, 8)], [(0, 8)], [(0, 4)]]
    assert bench.tokens(0) == sums(b"x" * 20, 1, 0)


def test_scheduler_puts_several_prompts_into_a_step() -> None:
    """The budget that one prompt leaves in a step goes to the next prompts."""
    bench = Bench(config_of(max_batch_tokens=8, max_batch_sequences=4))
    for prompt in ("aaaaa", "bbbbb", "cc"):
        bench.add(request(prompt, max_tokens=1))
    bench.step()
    assert shares(bench) == {0: 5, 1: 3}
    bench.step()
    assert shares(bench) == {1: 2, 2: 2}


def test_scheduler_decodes_first_and_limits_prefill() -> None:
    """Each running sequence decodes in every step, and prompts get at most max_prefill_chunk tokens."""
    bench = Bench(config_of(max_batch_tokens=32, max_batch_sequences=4, max_prefill_chunk=4))
    bench.add(request("aa", max_tokens=6))
    bench.step()
    bench.add(request("b" * 10, max_tokens=2, priority=-1))  # first in the order, but it delays no decode
    bench.add(request("c" * 10, max_tokens=2))
    steps = []
    for _ in range(5):
        bench.step()
        steps.append(shares(bench))
    assert steps == [{0: 1, 1: 4}, {0: 1, 1: 4}, {0: 1, 1: 2, 2: 2}, {0: 1, 1: 1, 2: 4}, {0: 1, 2: 4}]


def test_scheduler_gives_a_whole_step_to_prompts_when_nothing_decodes() -> None:
    """Prefill is limited only in steps with decodes."""
    bench = Bench(config_of(max_batch_tokens=32, max_batch_sequences=4, max_prefill_chunk=4))
    bench.add(request("b" * 30, max_tokens=2))
    bench.step()
    assert shares(bench) == {0: 30}


def test_scheduler_runs_no_more_sequences_than_allowed() -> None:
    """The number of slots is limited, and the next request starts when one is free."""
    bench = Bench(config_of(max_batch_sequences=2))
    for max_tokens in (2, 4, 2):
        bench.add(request("ab", max_tokens=max_tokens))
    bench.step()
    assert bench.core.stats().num_running == 2
    bench.step()
    assert shares(bench) == {0: 1, 1: 1}
    bench.step()
    assert shares(bench) == {1: 1, 2: 2}


def test_scheduler_orders_by_priority_and_then_by_arrival() -> None:
    """A lower priority value starts first, and equal values start in order of arrival."""
    bench = Bench(config_of(max_batch_sequences=1))
    for priority in (1, 0, 1, -1, 0):
        bench.add(request("ab", max_tokens=1, priority=priority))
    bench.run()
    assert bench.started == [3, 1, 4, 0, 2]


def test_scheduler_queues_a_large_prompt_without_letting_others_overtake_it() -> None:
    """Requests of a key start in order, so that small ones cannot delay a large one forever."""
    bench = Bench(config_of(num_blocks=8, max_model_len=32))
    bench.add(request("a" * 16, max_tokens=4))
    bench.step()
    bench.add(request("b" * 24, max_tokens=1))
    bench.add(request("cc", max_tokens=1))
    bench.step()
    assert shares(bench) == {0: 1}
    bench.run()
    assert bench.started == [0, 1, 2]


def test_scheduler_preempts_the_youngest_when_blocks_run_out() -> None:
    """The last sequence in the order releases its blocks, is queued again, and generates the same tokens as alone."""
    bench = Bench(config_of(num_blocks=6, max_model_len=24))
    bench.add(request("a" * 7, max_tokens=16))
    bench.add(request("b" * 7, max_tokens=10))
    bench.run()
    first, second = (bench.outputs[serial, 0][-1] for serial in (0, 1))
    assert first.timings.num_preemptions == 0
    assert second.timings.num_preemptions > 0
    assert bench.core.stats().num_preemptions == second.timings.num_preemptions
    assert bench.tokens(0) == sums(b"a" * 7, 16, 0)
    assert bench.tokens(1) == sums(b"b" * 7, 10, 0)
    bench.assert_idle()


def test_scheduler_preempts_by_priority_before_age() -> None:
    """An older request of lower priority is preempted for a younger one of higher priority."""
    bench = Bench(config_of(num_blocks=6, max_model_len=24))
    bench.add(request("a" * 7, max_tokens=10, priority=1))
    bench.add(request("b" * 7, max_tokens=16, priority=0))
    bench.run()
    timings = [bench.outputs[serial, 0][-1].timings for serial in (0, 1)]
    assert [t.num_preemptions > 0 for t in timings] == [True, False]


def test_scheduler_removes_a_preempted_sequence_from_the_step() -> None:
    """A sequence that is preempted after it was scheduled for a step does not run in that step."""
    bench = Bench(config_of(num_blocks=8, max_model_len=32, max_prefill_chunk=2, prefix_caching=False))
    low = bench.add(request("b" * 5, max_tokens=20, priority=1)).sequences[0]
    bench.step()
    bench.add(request("a" * 19, max_tokens=2, priority=0))
    while not low.num_preemptions:
        had_blocks = bench.pool.num_blocks_for(len(low.token_ids)) == len(low.block_table)
        bench.step()
    assert had_blocks, "it was preempted for the prompt's blocks, not for its own"
    assert shares(bench) == {1: 2}
    bench.run()
    assert bench.tokens(0) == sums(b"b" * 5, 20, 0)
    assert bench.tokens(1) == sums(b"a" * 19, 2, 0)
    bench.assert_idle()


def test_scheduler_finds_a_prompt_in_the_cache() -> None:
    """A prompt is computed from the end of its cached prefix on. The output has the number of cached tokens."""
    bench = Bench()
    bench.add(request("aaaabbbbcccc", max_tokens=2))
    bench.run()
    bench.add(request("aaaabbbbdddd", max_tokens=2))
    bench.run()
    assert bench.runner.steps[2] == [(1, 4)]
    assert [output.num_cached_tokens for output in bench.outputs[0, 0]] == [0, 0]
    assert [output.num_cached_tokens for output in bench.outputs[1, 0]] == [8, 8]
    assert bench.tokens(1) == sums(b"aaaabbbbdddd", 2, 0)
    stats = bench.core.stats()
    assert (stats.num_prefix_query_tokens, stats.num_prefix_hit_tokens) == (24, 8)


def test_scheduler_finds_an_answer_as_the_next_prompt_s_prefix() -> None:
    """Generated tokens are cached like prompts, so that the next turn of a chat computes only new tokens."""
    bench = Bench(rule=say("12345678"))
    bench.add(request("aaaa"))
    bench.run()
    bench.add(request("aaaa12345678?", max_tokens=1))
    bench.run()
    assert bench.outputs[1, 0][0].num_cached_tokens == 8  # the answer's last token was never computed


def test_scheduler_without_prefix_caching_shares_nothing_between_requests() -> None:
    """If prefix caching is off, each request computes its whole prompt."""
    bench = Bench(config_of(prefix_caching=False))
    for _ in range(2):
        bench.add(request("aaaabbbbcccc", max_tokens=1))
        bench.run()
    assert bench.runner.steps == [[(0, 12)], [(1, 12)]]
    assert bench.outputs[1, 0][0].num_cached_tokens == 0


@pytest.mark.parametrize("prefix_caching", [True, False])
def test_scheduler_lets_choices_share_the_prompt(prefix_caching: bool) -> None:  # noqa: FBT001
    """The first choice computes the prompt, and the others compute only its last, partly filled block."""
    bench = Bench(config_of(max_batch_tokens=8, max_batch_sequences=4, prefix_caching=prefix_caching))
    group = bench.add(request("aaaabbbbc", n=3, max_tokens=4))
    bench.step()
    assert bench.runner.steps == [[(0, 8)]]
    bench.step()
    assert bench.runner.steps[1:] == [[(0, 1)]]
    bench.step()
    assert bench.runner.steps[2:] == [[(0, 1), (0, 1), (0, 1)]]
    assert len({tuple(sequence.block_table[:2]) for sequence in group.sequences}) == 1
    bench.run()
    for index, sequence in enumerate(group.sequences):
        assert bench.tokens(0, index) == sums(b"aaaabbbbc", 4, sequence.seed)
        assert bench.outputs[0, index][-1].num_cached_tokens == 0
    bench.assert_idle()


def test_scheduler_counts_waiting_choices() -> None:
    """Choices that wait for the prompt of the first one count as waiting."""
    bench = Bench()
    bench.add(request("ab", n=3))
    assert bench.core.stats().num_waiting == 3
    bench.step()
    assert (bench.core.stats().num_waiting, bench.core.stats().num_running) == (2, 1)
    bench.step()
    assert (bench.core.stats().num_waiting, bench.core.stats().num_running) == (0, 3)


def test_scheduler_allocates_adjacent_blocks() -> None:
    """Each of several growing sequences has one run of blocks in an empty cache."""
    bench = Bench(config_of(num_blocks=64, max_model_len=64, prefix_caching=False))
    groups = [bench.add(request(letter * 9, max_tokens=30)) for letter in "abcd"]
    tables: list[list[int]] = []
    while bench.core.has_work:
        bench.step()
        tables.extend(list(group.sequences[0].block_table) for group in groups)
    assert max(map(len, tables)) == 10
    assert all(table == list(range(table[0], table[0] + len(table))) for table in tables if table)


@pytest.mark.slow
def test_scheduler_allocates_adjacent_blocks_in_a_full_cache() -> None:
    """If every free block is cached, most sequences still get one run of blocks, which can be read in place."""
    bench = Bench(config_of(num_blocks=400, max_model_len=200, max_batch_sequences=6))
    draw = random.Random(1)
    groups: list[SequenceGroup] = []
    tables: list[list[int]] = []
    while len(groups) < 300:
        while bench.scheduler.num_waiting + bench.scheduler.num_running < 6:
            prompt = [draw.randrange(256) for _ in range(draw.randint(10, 80))]
            groups.append(bench.add(request(prompt, max_tokens=draw.randint(5, 60), ignore_eos=True)))
        bench.step()
        if len(groups) > 100:
            assert bench.core.stats().num_cached_blocks > 150
            tables += [list(group.sequences[0].block_table) for group in groups[-6:] if group.sequences[0].block_table]
    num_whole = sum(table == list(range(table[0], table[0] + len(table))) for table in tables)
    assert num_whole > 0.6 * len(tables)


def test_scheduler_drops_a_request_once() -> None:
    """Dropping a request again does nothing."""
    bench = Bench()
    group = bench.add(request("hello"))
    bench.step()
    assert bench.scheduler.drop(group) == group.sequences
    assert bench.scheduler.drop(group) == []
    assert not bench.scheduler.has_work
    assert bench.pool.num_free_blocks == bench.pool.num_blocks
