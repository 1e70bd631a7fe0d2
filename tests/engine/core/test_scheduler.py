"""Scheduler: who gets how many tokens and blocks in the next step."""

from __future__ import annotations

import random

import pytest

from service.engine.core.sequences.sequence import SequenceGroup
from tests.engine.fakes import Bench, config_of, request, say, sums


def shares(bench: Bench) -> dict[int, int]:
    """What the last step gave, by serial of the request."""
    return dict(bench.runner.steps[-1])


def test_scheduler_has_nothing_to_do_without_requests() -> None:
    """No requests, no step."""
    bench = Bench()
    bench.step()
    assert bench.scheduler.schedule(0.0) is None
    assert bench.runner.steps == []


def test_scheduler_computes_a_prompt_and_then_a_token_a_step() -> None:
    """A sequence gets what it lacks: first its prompt, then each new token."""
    bench = Bench()
    bench.add(request("hello", max_tokens=3))
    bench.run()
    assert bench.runner.steps == [[(0, 5)], [(0, 1)], [(0, 1)]]


def test_scheduler_cuts_a_long_prompt_into_steps() -> None:
    """A step computes no more than max_batch_tokens, and only the prompt's last piece samples."""
    bench = Bench(config_of(max_batch_tokens=8, max_batch_sequences=4))
    bench.add(request("x" * 20, max_tokens=1))
    bench.run()
    assert bench.runner.steps == [[(0, 8)], [(0, 8)], [(0, 4)]]
    assert bench.tokens(0) == sums(b"x" * 20, 1, 0)


def test_scheduler_puts_several_prompts_into_a_step() -> None:
    """What one prompt leaves of a step goes to the next ones."""
    bench = Bench(config_of(max_batch_tokens=8, max_batch_sequences=4))
    for prompt in ("aaaaa", "bbbbb", "cc"):
        bench.add(request(prompt, max_tokens=1))
    bench.step()
    assert shares(bench) == {0: 5, 1: 3}
    bench.step()
    assert shares(bench) == {1: 2, 2: 2}


def test_scheduler_decodes_first_and_bounds_the_prompt_beside() -> None:
    """A running answer gets its token in every step, and a long prompt beside takes max_prefill_chunk of it."""
    bench = Bench(config_of(max_batch_tokens=32, max_batch_sequences=4, max_prefill_chunk=4))
    bench.add(request("aa", max_tokens=6))
    bench.step()
    bench.add(request("b" * 10, max_tokens=2, priority=-1))  # served first, yet no answer stops for it
    bench.add(request("c" * 10, max_tokens=2))
    steps = []
    for _ in range(5):
        bench.step()
        steps.append(shares(bench))
    assert steps == [{0: 1, 1: 4}, {0: 1, 1: 4}, {0: 1, 1: 2, 2: 2}, {0: 1, 1: 1, 2: 4}, {0: 1, 2: 4}]


def test_scheduler_gives_a_whole_step_to_prompts_when_nothing_decodes() -> None:
    """The bound on prompts is for the sake of running answers only."""
    bench = Bench(config_of(max_batch_tokens=32, max_batch_sequences=4, max_prefill_chunk=4))
    bench.add(request("b" * 30, max_tokens=2))
    bench.step()
    assert shares(bench) == {0: 30}


def test_scheduler_runs_no_more_sequences_than_allowed() -> None:
    """Places are bounded; the next request starts when one is free."""
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
    """A lower priority value starts first; equals start in the order in which they came."""
    bench = Bench(config_of(max_batch_sequences=1))
    for priority in (1, 0, 1, -1, 0):
        bench.add(request("ab", max_tokens=1, priority=priority))
    bench.run()
    assert bench.started == [3, 1, 4, 0, 2]


def test_scheduler_lets_a_large_prompt_wait_for_room_but_nobody_past_it() -> None:
    """Requests start strictly in their order, so a large one is not passed by small ones for ever."""
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
    """The last in the order gives back its blocks, waits, and ends with the same tokens as alone."""
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
    """An older request of lower rank gives way to a younger one of higher."""
    bench = Bench(config_of(num_blocks=6, max_model_len=24))
    bench.add(request("a" * 7, max_tokens=10, priority=1))
    bench.add(request("b" * 7, max_tokens=16, priority=0))
    bench.run()
    timings = [bench.outputs[serial, 0][-1].timings for serial in (0, 1)]
    assert [t.num_preemptions > 0 for t in timings] == [True, False]


def test_scheduler_takes_back_a_share_that_was_given_before_the_preemption() -> None:
    """A sequence that had its share of the step and is then preempted does not run in it."""
    bench = Bench(config_of(num_blocks=8, max_model_len=32, max_prefill_chunk=2, prefix_caching=False))
    low = bench.add(request("b" * 5, max_tokens=20, priority=1)).sequences[0]
    bench.step()
    bench.add(request("a" * 19, max_tokens=2, priority=0))
    while not low.num_preemptions:
        had_room = bench.pool.num_blocks_for(len(low.token_ids)) == len(low.block_table)
        bench.step()
    assert had_room, "it gave way to the prompt's growth, not to its own"
    assert shares(bench) == {1: 2}
    bench.run()
    assert bench.tokens(0) == sums(b"b" * 5, 20, 0)
    assert bench.tokens(1) == sums(b"a" * 19, 2, 0)
    bench.assert_idle()


def test_scheduler_finds_a_prompt_in_the_cache() -> None:
    """A prompt that begins like an earlier one is computed from where they part, and the reader is told how much."""
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


def test_scheduler_finds_an_answer_as_the_next_prompt_s_beginning() -> None:
    """Generated tokens are cached like prompts: the next turn of a chat computes only what is new."""
    bench = Bench(rule=say("12345678"))
    bench.add(request("aaaa"))
    bench.run()
    bench.add(request("aaaa12345678?", max_tokens=1))
    bench.run()
    assert bench.outputs[1, 0][0].num_cached_tokens == 8  # the answer's last token was never computed


def test_scheduler_without_prefix_caching_shares_nothing_between_requests() -> None:
    """Switched off, each request computes its whole prompt."""
    bench = Bench(config_of(prefix_caching=False))
    for _ in range(2):
        bench.add(request("aaaabbbbcccc", max_tokens=1))
        bench.run()
    assert bench.runner.steps == [[(0, 12)], [(1, 12)]]
    assert bench.outputs[1, 0][0].num_cached_tokens == 0


@pytest.mark.parametrize("prefix_caching", [True, False])
def test_scheduler_lets_choices_share_the_prompt(prefix_caching: bool) -> None:  # noqa: FBT001
    """The first choice computes the prompt, in pieces if need be; the others then compute only what is not full."""
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
    """Choices that wait for the first one's prompt are among those that wait."""
    bench = Bench()
    bench.add(request("ab", n=3))
    assert bench.core.stats().num_waiting == 3
    bench.step()
    assert (bench.core.stats().num_waiting, bench.core.stats().num_running) == (2, 1)
    bench.step()
    assert (bench.core.stats().num_waiting, bench.core.stats().num_running) == (0, 3)


def test_scheduler_keeps_one_sequence_s_blocks_together() -> None:
    """Sequences that grow side by side in an empty cache each have one run of blocks."""
    bench = Bench(config_of(num_blocks=64, max_model_len=64, prefix_caching=False))
    groups = [bench.add(request(letter * 9, max_tokens=30)) for letter in "abcd"]
    tables: list[list[int]] = []
    while bench.core.has_work:
        bench.step()
        tables.extend(list(group.sequences[0].block_table) for group in groups)
    assert max(map(len, tables)) == 10
    assert all(table == list(range(table[0], table[0] + len(table))) for table in tables if table)


@pytest.mark.slow
def test_scheduler_keeps_blocks_together_in_a_cache_that_is_full() -> None:
    """When every free block has old contents, most sequences still get one run: views are better than copies."""
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
    """To drop what is already gone changes nothing."""
    bench = Bench()
    group = bench.add(request("hello"))
    bench.step()
    assert bench.scheduler.drop(group) == group.sequences
    assert bench.scheduler.drop(group) == []
    assert not bench.scheduler.has_work
    assert bench.pool.num_free_blocks == bench.pool.num_blocks
