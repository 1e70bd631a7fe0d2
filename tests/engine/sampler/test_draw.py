"""Random numbers that depend on the request only, and the tokens that are drawn by them."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from service.engine.sampler.draw import draw, uniforms
from tests.engine.sampler.sampling import reference_uniform

VOCAB_SIZE = 700  # more than two blocks of the search


def test_uniforms_equal_splitmix() -> None:
    """The vectorised generator is SplitMix64, for seeds of 64 bits and any index."""
    rng = random.Random(5)
    seeds = [0, 1, 2**63 - 1, 2**64 - 1, *(rng.randrange(2**64) for _ in range(50))]
    indices = [rng.randrange(10**6) for _ in seeds]
    expected = [reference_uniform(seed, index) for seed, index in zip(seeds, indices, strict=True)]
    assert uniforms(seeds, indices).tolist() == expected


@pytest.mark.parametrize("along", ["seeds", "indices"])
def test_uniforms_are_uniform_and_independent(along: str) -> None:
    """Neighbouring seeds and the indices of one seed give the right mean, variance and neighbours' correlation."""
    count = 20_000
    steps, still = list(range(count)), [7] * count
    numbers = uniforms(steps, still) if along == "seeds" else uniforms(still, steps)
    assert numbers.mean() == pytest.approx(0.5, abs=0.01)
    assert numbers.var() == pytest.approx(1 / 12, abs=0.002)
    assert np.corrcoef(numbers[:-1], numbers[1:])[0, 1] == pytest.approx(0, abs=0.03)


@pytest.mark.parametrize("uniform", [0.0, 0.5, 1 - 2**-53])
@pytest.mark.parametrize("index", [0, 255, 256, 699])
def test_draw_never_takes_a_weight_of_zero(uniform: float, index: int) -> None:
    """With one weight above zero, any number finds it, at both ends of a block and of the vocabulary."""
    weights = torch.zeros(1, VOCAB_SIZE)
    weights[0, index] = 1e-30
    assert draw(weights, torch.tensor([uniform])).item() == index
