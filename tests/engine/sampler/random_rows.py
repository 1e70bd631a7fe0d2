"""Random logits and sequences, and sampling parameters of each kind."""

from __future__ import annotations

import random

import torch
from torch import Tensor

from service.engine.core.engine_core import SampledToken
from service.engine.core.sequences.sequence import Sequence
from service.generation.errors import SequenceError
from service.generation.requests.parameters import SamplingParams
from tests.engine.sampler.sampling import sequence_of

VOCAB_SIZE = 700  # more than one block of the search, and than truncation picks without sorting
PARAMS = {
    "plain": SamplingParams(),
    "greedy": SamplingParams(temperature=0),
    "cold": SamplingParams(temperature=0.3),
    "hot": SamplingParams(temperature=1.9),
    "top-k": SamplingParams(top_k=7),
    "top-k-1": SamplingParams(top_k=1),
    "top-k-many": SamplingParams(top_k=600, temperature=4.0),  # more than are picked without sorting
    "top-k-all": SamplingParams(top_k=VOCAB_SIZE + 5),
    "top-k-top-p": SamplingParams(top_k=20, top_p=0.9),
    "top-k-many-top-p": SamplingParams(top_k=600, top_p=0.99, temperature=4.0),
    "top-p": SamplingParams(top_p=0.8),
    "top-p-wide": SamplingParams(top_p=0.995, temperature=3.0),
    "top-p-one": SamplingParams(top_p=1e-9),
    "min-p": SamplingParams(min_p=0.1),
    "min-p-1": SamplingParams(min_p=1.0),
    "typical-p": SamplingParams(typical_p=0.6),
    "typical-p-wide": SamplingParams(typical_p=0.98, temperature=3.0),
    "repetition": SamplingParams(repetition_penalty=1.8),
    "repetition-reward": SamplingParams(repetition_penalty=0.4),
    "frequency": SamplingParams(frequency_penalty=1.1),
    "frequency-reward": SamplingParams(frequency_penalty=-0.9),
    "presence": SamplingParams(presence_penalty=1.7),
    "bias": SamplingParams(logit_bias={5: 6.0, 6: -100.0, 690: 5.0}),
    "allowed": SamplingParams(allowed_token_ids=(5, 6, 30, 31, 32, 690)),
    "greedy-allowed": SamplingParams(allowed_token_ids=(5, 6, 690), temperature=0),
    "watermark": SamplingParams(watermark=True, temperature=1.3, top_p=0.9),
    "greedy-watermark": SamplingParams(watermark=True, temperature=0),
    "greedy-penalties": SamplingParams(
        temperature=0, repetition_penalty=1.3, frequency_penalty=0.5, presence_penalty=0.5
    ),
    "all": SamplingParams(
        temperature=1.4,
        top_k=60,
        top_p=0.93,
        min_p=0.01,
        typical_p=0.9,
        repetition_penalty=1.2,
        frequency_penalty=0.3,
        presence_penalty=0.4,
        logit_bias={3: 2.0},
    ),
}


def num_rows_of(sampling: SamplingParams) -> int:
    """Return the number of random rows to compare. The watermark's reference hashes the vocabulary for each."""
    return 30 if sampling.watermark else 200


def random_logits(rows: int, seed: int = 0) -> Tensor:
    return torch.randn(rows, VOCAB_SIZE, generator=torch.Generator().manual_seed(seed)) * 2.5


def random_sequence(sampling: SamplingParams, rng: random.Random) -> Sequence:
    """Return a sequence whose prompt and answer repeat tokens, so that counts differ."""
    return sequence_of(
        sampling,
        prompt=[rng.randrange(40) for _ in range(rng.randrange(1, 30))],
        generated=[rng.randrange(20, 60) for _ in range(rng.randrange(30))],
        seed=rng.randrange(2**63),
    )


def token_ids(results: list[SampledToken | SequenceError]) -> list[int]:
    return [result.token_id for result in results if isinstance(result, SampledToken)]
