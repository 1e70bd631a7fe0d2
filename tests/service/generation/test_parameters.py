"""Ranges of parameters, and seeds."""

from __future__ import annotations

import math

import pytest

from service.generation.requests.parameters import Range, SamplingParams


@pytest.mark.parametrize(
    ("allowed", "inside", "outside", "message"),
    [
        (Range(at_least=0, at_most=2), [0, 1.5, 2], [-0.1, 2.1], "at least 0 and at most 2"),
        (Range(above=0, at_most=1), [0.1, 1], [0, 1.1], "above 0 and at most 1"),
        (Range(below=1), [-9, 0.9], [1], "below 1"),
        (Range(), [-1e30, 1e30], [], "a finite number"),
    ],
)
def test_range_bounds_are_inclusive_or_exclusive(
    allowed: Range, inside: list[float], outside: list[float], message: str
) -> None:
    """Bounds are inclusive or exclusive as named, infinite numbers are outside, and the text describes the range."""
    assert [value in allowed for value in inside] == [True] * len(inside)
    assert not any(value in allowed for value in [*outside, math.inf, -math.inf, math.nan])
    assert str(allowed) == message


def test_seeds_wrap_around_after_the_last_one() -> None:
    """Seeds after the last one start again; a given seed is kept."""
    assert SamplingParams(seed=2**63 - 1).with_next_seed(2).seed == 1
    assert SamplingParams(seed=5).with_next_seed(0).seed == 5
    assert SamplingParams().with_next_seed(1).seed is None
    assert SamplingParams(seed=5).with_seed().seed == 5
    drawn = SamplingParams(top_k=3).with_seed()
    assert drawn.seed is not None
    assert drawn.seed in range(2**63)
    assert drawn.top_k == 3
