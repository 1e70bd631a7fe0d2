"""Draft tokens by lookup in the text so far."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from service.engine.core.drafts.prompt_drafter import PromptLookup

TEXT = [1, 2, 3, 4, 5, 6]


def test_proposal_is_what_followed_the_last_three_tokens() -> None:
    """The proposal has the tokens that followed the last three tokens earlier, up to the requested number."""
    assert PromptLookup().propose([*TEXT, 1, 2, 3], [], 2) == [4, 5]


def test_proposal_uses_the_last_occurrence() -> None:
    """If an n-gram occurred several times, its last occurrence is used."""
    assert PromptLookup().propose([1, 2, 3, 8, 1, 2, 3, 9, 1, 2, 3], [], 1) == [9]


def test_proposal_continues_the_given_drafts() -> None:
    """The lookup includes the drafts of another source."""
    assert PromptLookup().propose([*TEXT, 7, 1], [2, 3], 2) == [4, 5]


def test_proposal_repeats_a_text_that_repeats_itself() -> None:
    """Beyond the end of the text the proposal continues with its own tokens."""
    assert PromptLookup().propose([9, 1, 2, 1, 2, 1], [], 6) == [2, 1, 2, 1, 2, 1]
    assert PromptLookup().propose([7] * 4, [], 3) == [7, 7, 7]


def test_a_new_n_gram_has_no_proposal() -> None:
    """Neither a new n-gram nor a text that is too short to repeat one has a proposal."""
    assert PromptLookup().propose(TEXT, [], 3) == []
    for length in range(4):
        assert PromptLookup().propose([1] * length, [], 3) == []


@given(st.lists(st.integers(0, 2), max_size=60), st.lists(st.integers(0, 2), max_size=3), st.integers(1, 8))
def test_proposal_equals_that_of_a_full_search(token_ids: list[int], after: list[int], most: int) -> None:
    """While the text grows token by token, the proposal equals the result of a search in the whole text."""
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
        assert lookup.propose(text, after, most) == expected
