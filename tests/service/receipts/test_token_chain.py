"""The digest of tokens, and where two of them begin to differ."""

from __future__ import annotations

import random
from typing import Any

import pytest

from service.receipts.token_chain import TokenChain, first_difference


def claim_of(token_ids: list[int]) -> dict[str, Any]:
    chain = TokenChain()
    chain.add(token_ids)
    return chain.claim()


def test_claim_does_not_depend_on_how_tokens_are_grouped() -> None:
    """Outputs of one token and one of all tokens give the same claim."""
    chain = TokenChain()
    for token_id in [7, 0, 2**32 - 1]:
        chain.add([token_id])
    assert chain.claim() == claim_of([7, 0, 2**32 - 1])


@pytest.mark.parametrize(
    ("first", "second", "index"),
    [
        ([1, 2, 3], [1, 2, 3], None),
        ([], [], None),
        ([1, 2, 3], [1, 2, 4], 2),
        ([1, 2, 3], [9, 2, 3], 0),
        ([1, 2, 3], [1, 2], 2),
        ([], [5], 0),
    ],
    ids=["equal", "empty", "last", "first", "shorter", "one is empty"],
)
def test_first_difference_is_the_first_token_that_differs(
    first: list[int], second: list[int], index: int | None
) -> None:
    assert first_difference(claim_of(first), claim_of(second)) == index
    assert first_difference(claim_of(second), claim_of(first)) == index


def test_each_of_1000_changed_sequences_differs_at_the_changed_token() -> None:
    """A changed token, a removed one or an added one is found at its index."""
    rng = random.Random(5)
    for _ in range(1000):
        tokens = [rng.randrange(150_000) for _ in range(rng.randint(1, 40))]
        index = rng.randrange(len(tokens))
        changed = rng.choice(
            [
                [*tokens[:index], tokens[index] + 1, *tokens[index + 1 :]],
                tokens[:index],
                [*tokens[:index], tokens[index] + 1, *tokens[index:]],
            ]
        )
        assert first_difference(claim_of(tokens), claim_of(changed)) == index
