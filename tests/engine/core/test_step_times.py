"""The step time model: the limits that follow from measured step times, which the tests make up."""

from __future__ import annotations

import math

import pytest

from service.engine.core.step_times import StepTimes

DECODE_S = 0.010
TOKEN_S = 0.001
LIMIT = 512
PORTION = 96  # tokens that take about a tenth of a second


def times_of(num_decodes: int = 4, *, slowdown: float = 3.0) -> StepTimes:
    """Return a model that has measured a prefill and a step of decodes."""
    times = StepTimes(slowdown)
    times.record(0, 300, 300 * TOKEN_S)
    times.record(num_decodes, 0, DECODE_S)
    return times


def budgets_of(times: StepTimes, num_steps: int, num_decodes: int = 4, token_s: float = TOKEN_S) -> list[int]:
    """Return the budgets of `num_steps` steps that are used up by endless prompts, with a fixed time per token."""
    numbers = []
    for _ in range(num_steps):
        numbers.append(times.prefill_budget(num_decodes, LIMIT))
        times.record(num_decodes, numbers[-1], DECODE_S + numbers[-1] * token_s)
    return numbers


def test_expected_time_is_that_of_the_decodes_and_of_the_prompts() -> None:
    """The expected time is the sum of decodes and prompts, as far as they were measured."""
    times = StepTimes(3.0)
    assert times.expected_s(4, 100) == 0
    times.record(0, 300, 300 * TOKEN_S)
    assert times.expected_s(4, 100) == pytest.approx(100 * TOKEN_S)
    times.record(4, 0, DECODE_S)
    assert times.expected_s(4, 100) == pytest.approx(DECODE_S + 100 * TOKEN_S)


def test_prefill_budget_is_the_limit_before_both_kinds_of_step_were_measured() -> None:
    """Without a measured decode or a measured prompt, the budget is the limit."""
    assert StepTimes(3.0).prefill_budget(4, LIMIT) == LIMIT
    times = StepTimes(3.0)
    times.record(4, 0, DECODE_S)
    assert times.prefill_budget(4, LIMIT) == LIMIT


@pytest.mark.parametrize(("slowdown", "mean"), [(1.9, 8), (3.0, 20), (6.0, 48)])
def test_prefill_budget_follows_from_the_slowdown(slowdown: float, mean: int) -> None:
    """A slowdown of 3 with 10 ms per decode leaves 20 ms, or 20 tokens of 1 ms.

    Budgets are rounded down to a chunk size.
    """
    times = times_of(slowdown=slowdown)
    assert budgets_of(times, 10)[:3] == [PORTION] * 3
    budgets_of(times, 330)
    assert set(budgets_of(times, 330)) == {0, mean}


def test_prefill_budget_allows_a_burst_of_prompts_after_a_pause() -> None:
    """After steps without prompts, 1,536 tokens are computed in portions of 0.1 s, and then the bound holds again."""
    times = times_of()
    budgets_of(times, 50)
    for _ in range(200):
        times.record(4, 0, DECODE_S)
    numbers = budgets_of(times, 40)
    assert numbers[:16] == [PORTION] * 16
    assert max(numbers[24:]) <= 32
    assert times.prefill_budget(4, 3) == 3


def test_prefill_budget_lets_every_prompt_progress() -> None:
    """However slow prompts are, a small chunk is computed with the decodes from time to time."""
    times = times_of(slowdown=1.1)
    budgets_of(times, 40)
    assert set(budgets_of(times, 400, token_s=10 * TOKEN_S)[200:]) == {0, 2}


def test_prefill_budget_is_saved_up_to_an_efficient_chunk() -> None:
    """Small allowances are saved up to a chunk, because single tokens would cost several times as much each."""
    times = times_of(slowdown=1.1)
    budgets_of(times, 40)
    numbers = budgets_of(times, 400)[200:]
    assert set(numbers) == {0, 8}
    assert 180 <= sum(numbers) <= 200


def test_prefill_budget_is_a_burst_again_after_prompts_without_decodes() -> None:
    """A prefill that delayed no decode restores the full burst."""
    times = times_of()
    assert max(budgets_of(times, 50)[20:]) <= 32
    times.record(0, 300, 300 * TOKEN_S)
    assert budgets_of(times, 10) == [PORTION] * 10


def test_prefill_budget_follows_prefills_that_become_slower() -> None:
    """The time that a mixed step takes beyond its decodes is its prefill's, which rises per token in long prompts."""
    times = times_of(slowdown=9.0)
    budgets_of(times, 100)
    assert budgets_of(times, 10)[-1] == 80
    budgets_of(times, 50, token_s=2 * TOKEN_S)
    assert budgets_of(times, 10, token_s=2 * TOKEN_S)[-1] == 40


def test_step_times_of_an_unmeasured_number_of_decodes_are_those_of_the_next_smaller() -> None:
    """More decodes take longer, so the next smaller number is a safe estimate. Without one, nothing is known."""
    times = times_of(num_decodes=4)
    budgets_of(times, 40, num_decodes=30)
    assert max(budgets_of(times, 20, num_decodes=30)) <= 32
    assert times.prefill_budget(1, LIMIT) == LIMIT


def test_step_times_of_decodes_are_those_of_the_short_steps() -> None:
    """If one step in four takes four times as long, because of other work, the estimate hardly changes."""
    times = times_of()
    for _ in range(10):
        for factor in (1, 1, 4, 1):
            times.record(4, 0, factor * DECODE_S)
    budgets_of(times, 40)
    assert sum(budgets_of(times, 20)) <= 20 * 30


def test_prefill_budget_is_zero_from_time_to_time() -> None:
    """Under endless prompts, one step in 33 measures the time of decodes alone."""
    numbers = budgets_of(times_of(), 66)
    assert [index for index, number in enumerate(numbers) if number == 0] == [32, 65]


@pytest.mark.parametrize(("remaining_s", "is_too_late"), [(1.1, False), (0.9, True), (0.0, True)])
def test_a_prompt_is_too_late_only_if_twice_the_best_speed_is_too_slow(
    remaining_s: float,
    is_too_late: bool,  # noqa: FBT001
) -> None:
    """2,000 tokens at 1 ms take 2 s. Slower or small steps since do not count."""
    times = times_of()
    times.record(0, 300, 3.0)
    times.record(0, 10, 0.0001)
    assert times.is_too_late(2000, remaining_s) is is_too_late


def test_no_prompt_is_too_late_before_a_large_one_was_measured() -> None:
    """Small prompts do not measure the engine's best speed."""
    times = StepTimes(3.0)
    times.record(0, 100, 50.0)
    assert not times.is_too_late(2000, 0.001)


def test_max_decodes_keeps_steps_short() -> None:
    """If each further sequence makes a step 10 % longer, six make it 1.5 times as long.

    Prompts in the steps count too.
    """
    times = StepTimes(3.0, 1.5)
    times.record(1, 0, DECODE_S)
    for _ in range(40):
        times.record(5, 0, 1.4 * DECODE_S)
    assert times.max_decodes == pytest.approx(6)
    for _ in range(200):
        times.record(5, 20, 3 * DECODE_S)
    assert times.max_decodes == pytest.approx(2, abs=0.1)


def test_max_decodes_is_small_until_a_batch_was_measured() -> None:
    """If only single decodes were measured, at most four sequences run."""
    times = StepTimes(3.0, 1.5)
    for _ in range(2):
        times.record(1, 0, DECODE_S)
    assert times.max_decodes == 4


def test_max_decodes_is_unlimited_before_a_single_decode_was_measured() -> None:
    """The number is also unlimited without a slowdown limit, and if further decodes cost nothing."""
    times, unbounded, cheap = StepTimes(3.0, 1.5), StepTimes(3.0), StepTimes(3.0, 1.5)
    for each in (unbounded, cheap):
        each.record(1, 0, DECODE_S)
    for _ in range(40):
        times.record(5, 0, 9 * DECODE_S)
        unbounded.record(5, 0, 9 * DECODE_S)
        cheap.record(5, 0, DECODE_S)
    assert times.max_decodes == unbounded.max_decodes == cheap.max_decodes == math.inf
