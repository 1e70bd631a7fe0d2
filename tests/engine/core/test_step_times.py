"""The step time model: what follows from measured steps. The times are those of a machine that a test makes up."""

from __future__ import annotations

import math

import pytest

from service.engine.core.step_times import StepTimes

DECODE_S = 0.010
TOKEN_S = 0.001
LIMIT = 512
STEP = 96  # tokens that take a tenth of a second


def times_of(num_decodes: int = 4, *, slowdown: float = 3.0) -> StepTimes:
    """A model that has seen a prefill and then some decodes."""
    times = StepTimes(slowdown)
    times.record(0, 300, 300 * TOKEN_S)
    times.record(num_decodes, 0, DECODE_S)
    return times


def given(times: StepTimes, num_steps: int, num_decodes: int = 4, token_s: float = TOKEN_S) -> list[int]:
    """The budgets of so many steps, used up by prompts that never end, where each of their tokens takes so long."""
    numbers = []
    for _ in range(num_steps):
        numbers.append(times.prefill_budget(num_decodes, LIMIT))
        times.record(num_decodes, numbers[-1], DECODE_S + numbers[-1] * token_s)
    return numbers


def test_expected_time_is_that_of_the_decodes_and_of_the_prompts() -> None:
    """As far as each is known."""
    times = StepTimes(3.0)
    assert times.expected_s(4, 100) == 0
    times.record(0, 300, 300 * TOKEN_S)
    assert times.expected_s(4, 100) == pytest.approx(100 * TOKEN_S)
    times.record(4, 0, DECODE_S)
    assert times.expected_s(4, 100) == pytest.approx(DECODE_S + 100 * TOKEN_S)


def test_prefill_budget_is_the_limit_before_both_kinds_of_step_were_measured() -> None:
    """Without the time of a decode, or of a prompt, there is nothing to go by."""
    assert StepTimes(3.0).prefill_budget(4, LIMIT) == LIMIT
    times = StepTimes(3.0)
    times.record(4, 0, DECODE_S)
    assert times.prefill_budget(4, LIMIT) == LIMIT


@pytest.mark.parametrize(("slowdown", "mean"), [(1.9, 8), (3.0, 20), (6.0, 48)])
def test_prefill_budget_is_what_the_slowdown_leaves(slowdown: float, mean: int) -> None:
    """Three times 10 ms leave 20 ms, 20 tokens of 1 ms, and other times the next smaller size of a chunk."""
    times = times_of(slowdown=slowdown)
    assert given(times, 10)[:3] == [STEP] * 3
    given(times, 330)
    assert set(given(times, 330)) == {0, mean}


def test_prefill_budget_lets_a_burst_of_prompts_through_after_a_pause() -> None:
    """1,536 tokens after steps without prompts, in steps that readers hardly notice; then it goes on as before."""
    times = times_of()
    given(times, 50)
    for _ in range(200):
        times.record(4, 0, DECODE_S)
    numbers = given(times, 40)
    assert numbers[:16] == [STEP] * 16
    assert max(numbers[24:]) <= 32
    assert times.prefill_budget(4, 3) == 3


def test_prefill_budget_always_lets_a_prompt_move_on() -> None:
    """However slow prompts are, a small chunk goes beside the decodes now and then."""
    times = times_of(slowdown=1.1)
    given(times, 40)
    assert set(given(times, 400, token_s=10 * TOKEN_S)[200:]) == {0, 2}


def test_prefill_budget_is_saved_up_to_a_chunk_that_is_worth_its_step() -> None:
    """A tenth of a decode's time in each step would be one token of a prompt at a time, each at several one's cost."""
    times = times_of(slowdown=1.1)
    given(times, 40)
    numbers = given(times, 400)[200:]
    assert set(numbers) == {0, 8}
    assert 180 <= sum(numbers) <= 200


def test_prefill_budget_is_a_burst_again_after_prompts_that_held_up_nobody() -> None:
    """Who comes when nobody reads begins anew, whatever those before have used up."""
    times = times_of()
    assert max(given(times, 50)[20:]) <= 32
    times.record(0, 300, 300 * TOKEN_S)
    assert given(times, 10) == [STEP] * 10


def test_prefill_budget_follows_prefills_that_become_slower() -> None:
    """A mixed step's time beyond its decodes is its prefill's: far in a long prompt, more a token."""
    times = times_of(slowdown=9.0)
    given(times, 100)
    assert given(times, 10)[-1] == 80
    given(times, 50, token_s=2 * TOKEN_S)
    assert given(times, 10, token_s=2 * TOKEN_S)[-1] == 40


def test_step_times_of_a_number_of_decodes_not_seen_are_those_of_the_next_smaller() -> None:
    """More decodes take longer, so that is the safe side; of fewer than ever seen nothing is known."""
    times = times_of(num_decodes=4)
    given(times, 40, num_decodes=30)
    assert max(given(times, 20, num_decodes=30)) <= 32
    assert times.prefill_budget(1, LIMIT) == LIMIT


def test_step_times_of_decodes_are_those_of_the_short_steps() -> None:
    """One step in four is interrupted by other work and takes four times as long: that hardly counts."""
    times = times_of()
    for _ in range(10):
        for factor in (1, 1, 4, 1):
            times.record(4, 0, factor * DECODE_S)
    given(times, 40)
    assert sum(given(times, 20)) <= 20 * 30


def test_prefill_budget_is_none_now_and_then() -> None:
    """Under prompts without end, one step in 33 shows again what decodes take alone."""
    numbers = given(times_of(), 66)
    assert [index for index, number in enumerate(numbers) if number == 0] == [32, 65]


@pytest.mark.parametrize(("remaining_s", "is_too_late"), [(1.1, False), (0.9, True), (0.0, True)])
def test_step_times_call_a_prompt_too_late_only_if_twice_the_best_speed_would_not_do(
    remaining_s: float,
    is_too_late: bool,  # noqa: FBT001
) -> None:
    """2,000 tokens at 1 ms take 2 s; slower steps since do not count, nor small ones."""
    times = times_of()
    times.record(0, 300, 3.0)
    times.record(0, 10, 0.0001)
    assert times.is_too_late(2000, remaining_s) is is_too_late


def test_step_times_call_nothing_too_late_before_it_has_seen_a_large_prompt() -> None:
    """The first small prompts of an engine say little of its speed."""
    times = StepTimes(3.0)
    times.record(0, 100, 50.0)
    assert not times.is_too_late(2000, 0.001)


def test_so_many_decodes_as_keep_steps_short() -> None:
    """Each further sequence makes a step a tenth longer, so six make it 1.5 times as long; prompts count with them."""
    times = StepTimes(3.0, 1.5)
    times.record(1, 0, DECODE_S)
    for _ in range(40):
        times.record(5, 0, 1.4 * DECODE_S)
    assert times.max_decodes == pytest.approx(6)
    for _ in range(200):
        times.record(5, 20, 3 * DECODE_S)
    assert times.max_decodes == pytest.approx(2, abs=0.1)


def test_a_few_sequences_show_what_company_costs() -> None:
    """When only single ones were measured, a crowd doesn't begin all at once."""
    times = StepTimes(3.0, 1.5)
    for _ in range(2):
        times.record(1, 0, DECODE_S)
    assert times.max_decodes == 4


def test_the_number_of_decodes_is_not_bounded_before_a_single_one_was_measured() -> None:
    """Nor without a slowdown to keep to, nor where company costs nothing."""
    times, unbounded, cheap = StepTimes(3.0, 1.5), StepTimes(3.0), StepTimes(3.0, 1.5)
    for each in (unbounded, cheap):
        each.record(1, 0, DECODE_S)
    for _ in range(40):
        times.record(5, 0, 9 * DECODE_S)
        unbounded.record(5, 0, 9 * DECODE_S)
        cheap.record(5, 0, DECODE_S)
    assert times.max_decodes == unbounded.max_decodes == cheap.max_decodes == math.inf
