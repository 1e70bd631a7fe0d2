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


def test_pace_bounds_nothing_before_it_has_seen_both_kinds_of_step() -> None:
    """Without the time of a decode, or of a prompt, there is nothing to go by."""
    assert Pace(3.0).max_prompt_tokens(4, LIMIT) == LIMIT
    pace = Pace(3.0)
    pace.learn(4, 0, DECODE_S)
    assert pace.max_prompt_tokens(4, LIMIT) == LIMIT


def test_pace_leaves_prompts_what_the_stretch_allows() -> None:
    """1.9 times 10 ms leave 9 ms, 9 tokens of 1 ms; of these a chunk of the next smaller size is given."""
    assert pace_of(stretch=1.9).max_prompt_tokens(4, LIMIT) == 8
    assert pace_of(stretch=3.0).max_prompt_tokens(4, LIMIT) == 20
    assert pace_of(stretch=6.0).max_prompt_tokens(4, LIMIT) == 48
    assert pace_of(stretch=6.0).max_prompt_tokens(4, 40) == 40


def test_pace_always_lets_a_prompt_move_on() -> None:
    """However slow prompts are, a small chunk goes beside the answers."""
    assert pace_of(stretch=1.1).max_prompt_tokens(4, LIMIT) == 2


def test_pace_follows_prompts_that_become_slower() -> None:
    """What a mixed step took beyond its answers is what its prompts took: far in a long prompt, more a token."""
    pace = pace_of(stretch=9.0)
    assert pace.max_prompt_tokens(4, LIMIT) == 80
    for _ in range(20):
        num_tokens = pace.max_prompt_tokens(4, LIMIT)
        pace.learn(4, num_tokens, DECODE_S + num_tokens * 2 * TOKEN_S)
    assert pace.max_prompt_tokens(4, LIMIT) == 32


def test_pace_takes_the_next_smaller_number_of_answers_for_one_that_it_has_not_seen() -> None:
    """More answers take longer, so that is the safe side; with fewer than ever seen it knows nothing."""
    pace = pace_of(num_decodes=4, stretch=6.0)
    assert pace.max_prompt_tokens(30, LIMIT) == 48
    assert pace.max_prompt_tokens(1, LIMIT) == LIMIT
    pace.learn(30, 0, 2 * DECODE_S)
    assert pace.max_prompt_tokens(30, LIMIT) == 96


def test_pace_takes_the_short_steps_for_what_answers_take() -> None:
    """One step in four is interrupted by other work and takes four times as long: that hardly counts."""
    pace = pace_of(stretch=9.0)
    for _ in range(10):
        for times in (1, 1, 4, 1):
            pace.learn(4, 0, times * DECODE_S)
    assert pace.max_prompt_tokens(4, LIMIT) in (80, 96)


def test_pace_lets_answers_alone_take_a_step_now_and_then() -> None:
    """Under prompts without end, one step in 33 tells again what the answers take alone."""
    pace = pace_of()
    given = []
    for _ in range(66):
        num_tokens = pace.max_prompt_tokens(4, LIMIT)
        given.append(num_tokens)
        pace.learn(4, num_tokens, DECODE_S + num_tokens * TOKEN_S)
    assert given == [*[20] * 32, 0] * 2


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
