"""Pace: what it makes of measured steps. The times are those of a machine that a test makes up."""

from __future__ import annotations

import pytest

from service.engine.pace import Pace

DECODE_S = 0.010
TOKEN_S = 0.001
LIMIT = 512


def pace_of(num_decodes: int = 4, *, stretch: float = 3.0) -> Pace:
    """One that has seen a prompt and then some answers."""
    pace = Pace(stretch)
    pace.learn(0, 300, 300 * TOKEN_S)
    pace.learn(num_decodes, 0, DECODE_S)
    return pace


def given(pace: Pace, num_steps: int, num_decodes: int = 4, token_s: float = TOKEN_S) -> list[int]:
    """What so many steps gave to prompts that are always there, on a machine that needs so long for a token."""
    numbers = []
    for _ in range(num_steps):
        numbers.append(pace.max_prompt_tokens(num_decodes, LIMIT))
        pace.learn(num_decodes, numbers[-1], DECODE_S + numbers[-1] * token_s)
    return numbers


def test_pace_bounds_nothing_before_it_has_seen_both_kinds_of_step() -> None:
    """Without the time of a decode, or of a prompt, there is nothing to go by."""
    assert Pace(3.0).max_prompt_tokens(4, LIMIT) == LIMIT
    pace = Pace(3.0)
    pace.learn(4, 0, DECODE_S)
    assert pace.max_prompt_tokens(4, LIMIT) == LIMIT


@pytest.mark.parametrize(("stretch", "mean"), [(1.9, 8), (3.0, 20), (6.0, 48)])
def test_pace_leaves_prompts_what_the_stretch_allows(stretch: float, mean: int) -> None:
    """Three times 10 ms leave 20 ms, 20 tokens of 1 ms, and other times the next smaller size of a chunk."""
    pace = pace_of(stretch=stretch)
    assert given(pace, 10)[:3] == [LIMIT] * 3
    given(pace, 330)
    assert set(given(pace, 330)) == {0, mean}


def test_pace_lets_a_burst_of_prompts_through_after_a_pause() -> None:
    """1,536 tokens at once, after steps without prompts; then it goes on as before."""
    pace = pace_of()
    given(pace, 50)
    for _ in range(200):
        pace.learn(4, 0, DECODE_S)
    numbers = given(pace, 20)
    assert numbers[:3] == [LIMIT] * 3
    assert max(numbers[4:]) <= 32
    assert pace.max_prompt_tokens(4, 3) == 3


def test_pace_always_lets_a_prompt_move_on() -> None:
    """However slow prompts are, a small chunk goes beside the answers."""
    pace = pace_of(stretch=1.1)
    given(pace, 10)
    assert set(given(pace, 20, token_s=10 * TOKEN_S)) == {2}


def test_pace_follows_prompts_that_become_slower() -> None:
    """What a mixed step took beyond its answers is what its prompts took: far in a long prompt, more a token."""
    pace = pace_of(stretch=9.0)
    given(pace, 100)
    assert given(pace, 10)[-1] == 80
    given(pace, 50, token_s=2 * TOKEN_S)
    assert given(pace, 10, token_s=2 * TOKEN_S)[-1] == 40


def test_pace_takes_the_next_smaller_number_of_answers_for_one_that_it_has_not_seen() -> None:
    """More answers take longer, so that is the safe side; with fewer than ever seen it knows nothing."""
    pace = pace_of(num_decodes=4)
    given(pace, 40, num_decodes=30)
    assert max(given(pace, 20, num_decodes=30)) <= 32
    assert pace.max_prompt_tokens(1, LIMIT) == LIMIT


def test_pace_takes_the_short_steps_for_what_answers_take() -> None:
    """One step in four is interrupted by other work and takes four times as long: that hardly counts."""
    pace = pace_of()
    for _ in range(10):
        for times in (1, 1, 4, 1):
            pace.learn(4, 0, times * DECODE_S)
    given(pace, 10)
    assert sum(given(pace, 20)) <= 20 * 30


def test_pace_lets_answers_alone_take_a_step_now_and_then() -> None:
    """Under prompts without end, one step in 33 tells again what the answers take alone."""
    numbers = given(pace_of(), 66)
    assert [index for index, number in enumerate(numbers) if number == 0] == [32, 65]


@pytest.mark.parametrize(("remaining_s", "is_too_late"), [(1.1, False), (0.9, True), (0.0, True)])
def test_pace_calls_a_prompt_too_late_only_if_twice_the_best_speed_would_not_do(
    remaining_s: float,
    is_too_late: bool,  # noqa: FBT001
) -> None:
    """2,000 tokens at 1 ms take 2 s; slower steps since do not count, nor small ones."""
    pace = pace_of()
    pace.learn(0, 300, 3.0)
    pace.learn(0, 10, 0.0001)
    assert pace.is_too_late(2000, remaining_s) is is_too_late


def test_pace_calls_nothing_too_late_before_it_has_seen_a_large_prompt() -> None:
    """The first small prompts of an engine say little of its speed."""
    pace = Pace(3.0)
    pace.learn(0, 100, 50.0)
    assert not pace.is_too_late(2000, 0.001)
