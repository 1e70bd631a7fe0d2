"""Guesses from a text's own past."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from service.engine.core.drafts.prompt_drafter import PromptLookup

TEXT = [1, 2, 3, 4, 5, 6]


def test_guess_is_what_followed_the_last_three_tokens() -> None:
    """As many as are wanted."""
    assert PromptLookup().guess([*TEXT, 1, 2, 3], [], 2) == [4, 5]


def test_guess_goes_by_the_last_place() -> None:
    """Where a run stood more than once, what followed last is the likeliest."""
    assert PromptLookup().guess([1, 2, 3, 8, 1, 2, 3, 9, 1, 2, 3], [], 1) == [9]


def test_guess_follows_what_is_guessed_already() -> None:
    """A draft of another source may lead to a known place."""
    assert PromptLookup().guess([*TEXT, 7, 1], [2, 3], 2) == [4, 5]


def test_guess_goes_round_in_a_text_that_repeats_itself() -> None:
    """Beyond the text's end the guess is its own past."""
    assert PromptLookup().guess([9, 1, 2, 1, 2, 1], [], 6) == [2, 1, 2, 1, 2, 1]
    assert PromptLookup().guess([7] * 4, [], 3) == [7, 7, 7]


def test_nothing_is_guessed_of_what_is_new() -> None:
    """Nor of a text that is too short to have repeated anything."""
    assert PromptLookup().guess(TEXT, [], 3) == []
    for length in range(4):
        assert PromptLookup().guess([1] * length, [], 3) == []


@given(st.lists(st.integers(0, 2), max_size=60), st.lists(st.integers(0, 2), max_size=3), st.integers(1, 8))
def test_guess_is_that_of_a_search(token_ids: list[int], after: list[int], most: int) -> None:
    """While the text grows token by token, the guess is what a search of the whole text finds."""
    lookup = PromptLookup()
    for length in range(len(token_ids) + 1):
        text = token_ids[:length]
        last = [*text, *after][-3:]
        ends = [end for end in range(3, length) if text[end - 3 : end] == last]
        expected: list[int] = []
        if len(last) == 3 and ends:
            longer = [*text, *after]
            period = len(longer) - ends[-1]
            while len(longer) < length + len(after) + most:
                longer.append(longer[-period])
            expected = longer[length + len(after) :]
        assert lookup.guess(text, after, most) == expected
