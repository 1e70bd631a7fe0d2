"""The watermark is detected in watermarked text, and not in other text or with another key."""

from __future__ import annotations

import math
import random
from collections import abc
from itertools import pairwise

import numpy as np
import pytest
import torch

from service.engine.core.engine_core import SampledToken
from service.engine.sampler.torch_sampler import TorchSampler
from service.engine.tokens.watermark import Watermark, detect
from service.generation.requests.parameters import SamplingParams
from tests.engine.sampler.mask_constraints import Only
from tests.engine.sampler.sampling import sequence_of

VOCAB_SIZE = 500
NUM_TOKENS = 120
WATERMARK = Watermark(key="a test's own")
WISHES = {
    "plain": SamplingParams(),
    "greedy": SamplingParams(temperature=0),
    "shaped": SamplingParams(temperature=0.8, top_k=100, top_p=0.95, repetition_penalty=1.1, logit_bias={7: -100.0}),
}


def write(
    sampling: SamplingParams, seed: int, allowed: abc.Sequence[int] = (), watermark: Watermark = WATERMARK
) -> list[int]:
    """Return 120 tokens of a model of random logits; only `allowed` ones, if any are given."""
    logits = torch.randn(NUM_TOKENS, VOCAB_SIZE, generator=torch.Generator().manual_seed(seed)) * 1.5
    sequence = sequence_of(sampling, seed=seed, constraint=Only(*allowed) if allowed else None)
    sampler = TorchSampler(watermark)
    for row in logits:
        (result,) = sampler.sample(row[None].clone(), [sequence])
        assert isinstance(result, SampledToken)
        sequence.token_ids.append(result.token_id)
    return sequence.token_ids[sequence.num_prompt_tokens :]


def marked(sampling: SamplingParams) -> SamplingParams:
    return SamplingParams(**{name: getattr(sampling, name) for name in sampling.__slots__} | {"watermark": True})


@pytest.mark.slow
@pytest.mark.parametrize("sampling", WISHES.values(), ids=WISHES)
@pytest.mark.parametrize("allowed", [(), range(3, 400, 3)], ids=["free", "constrained"])
def test_watermark_is_found_in_120_tokens(sampling: SamplingParams, allowed: abc.Sequence[int]) -> None:
    """Each of ten texts, greedy or sampled, free or constrained, scores above 4.

    Without the watermark, and with any other key, none of 40 does, and their mean is that of a standard normal variable
    within 4 sigma.
    """
    with_mark = [write(marked(sampling), seed, allowed) for seed in range(10)]
    without = [write(sampling, seed, allowed) for seed in range(10)]
    assert min(detect(WATERMARK, text).z_score for text in with_mark) > 4
    others = [detect(WATERMARK, text).z_score for text in without]
    others += [detect(Watermark(key=key), text).z_score for key in ("sluice", "b", "c") for text in with_mark]
    assert max(map(abs, others)) < 4
    assert abs(sum(others)) / math.sqrt(len(others)) < 4


@pytest.mark.slow
def test_score_of_other_texts_is_standard_normal() -> None:
    """Over 2,000 random texts: mean 0, variance 1, and 5 % have a p-value below 0.05, each within 4 sigma."""
    rng = random.Random(1)
    scores = [detect(WATERMARK, rng.choices(range(VOCAB_SIZE), k=200)) for _ in range(2000)]
    z_scores = np.array([score.z_score for score in scores])
    assert abs(z_scores.mean()) < 4 / math.sqrt(2000)
    assert abs(z_scores.var() - 1) < 4 * math.sqrt(2 / 2000)
    assert abs(np.mean([score.p_value < 0.05 for score in scores]) - 0.05) < 4 * math.sqrt(0.05 * 0.95 / 2000)


@pytest.mark.parametrize("gamma", [0.1, 0.25, 0.5])
def test_green_lists_have_their_part_of_the_vocabulary(gamma: float) -> None:
    """Each list has about gamma of the tokens and each token is in about gamma of the lists: within 5 sigma."""
    num_lists, num_tokens = 400, 2048
    greens = Watermark(gamma=gamma).greens(range(num_lists), np.arange(num_tokens, dtype=np.uint32))
    assert greens.shape == (num_lists, num_tokens)
    deviation = math.sqrt(gamma * (1 - gamma))
    assert np.abs(greens.mean(axis=1) - gamma).max() < 5 * deviation / math.sqrt(num_tokens)
    assert np.abs(greens.mean(axis=0) - gamma).max() < 5 * deviation / math.sqrt(num_lists)
    correlation = np.array(np.corrcoef(greens)) - np.eye(num_lists)
    assert np.abs(correlation).max() < 6 / math.sqrt(num_tokens)


def test_watermark_raises_the_green_tokens_of_its_row_only() -> None:
    """Green tokens gain delta; other tokens, and rows without the watermark, don't change."""
    green = WATERMARK.greens([3], np.arange(VOCAB_SIZE, dtype=np.uint32))[0]
    first_green, first_red = int(green.argmax()), int((~green).argmax())
    logits = torch.zeros(4, VOCAB_SIZE)
    logits[:, first_red] = 5.0
    logits[0, first_green] = logits[1, first_green] = 5.0 - WATERMARK.delta + 0.1
    logits[2, first_green] = 5.0 - WATERMARK.delta - 0.1
    logits[3, first_green] = 5.0 - WATERMARK.delta + 0.1
    wishes = [SamplingParams(temperature=0, watermark=wanted) for wanted in (True, False, True, True)]
    results = TorchSampler(WATERMARK).sample(logits, [sequence_of(wish, prompt=[1, 3]) for wish in wishes])
    assert [result.token_id for result in results if isinstance(result, SampledToken)] == [
        first_green, first_red, first_red, first_green,
    ]  # fmt: skip


def test_score_counts_each_pair_once() -> None:
    """Repetition doesn't increase a text's score."""
    once = [5, 9, 2, 7, 5]
    score = detect(WATERMARK, once)
    assert score.num_tokens == 4
    assert detect(WATERMARK, once + once[1:] * 100) == score
    with pytest.raises(ValueError, match="two tokens"):
        detect(WATERMARK, [5])


def test_score_is_the_papers_formula() -> None:
    """The score equals the one computed by hand from the green lists."""
    tokens = random.Random(2).choices(range(30), k=300)
    pairs = set(pairwise(tokens))
    assert 200 < len(pairs) < 299
    greens = sum(bool(WATERMARK.greens([a], np.array([b], dtype=np.uint32))[0, 0]) for a, b in pairs)
    score = detect(WATERMARK, tokens)
    assert score.z_score == pytest.approx((greens - 0.25 * len(pairs)) / math.sqrt(len(pairs) * 0.25 * 0.75))
    assert score.green_fraction == greens / len(pairs)


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"gamma": 0.0}, "gamma"), ({"gamma": 1.0}, "gamma"), ({"gamma": math.nan}, "gamma"),
        ({"delta": 0.0}, "delta"), ({"delta": math.inf}, "delta"), ({"delta": math.nan}, "delta"),
        ({"key": ""}, "key"), ({"key": "é" * 33}, "key"),
    ],
)  # fmt: skip
def test_watermark_names_a_bad_value(values: dict[str, float | str], name: str) -> None:
    """The error names the invalid parameter and doesn't contain the key."""
    with pytest.raises(ValueError, match=f"^{name} must") as caught:
        Watermark(**values)  # type: ignore[arg-type]
    assert "é" not in str(caught.value)
    assert "sluice" not in repr(Watermark())
