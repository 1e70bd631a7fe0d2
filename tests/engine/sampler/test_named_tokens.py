"""The tokens that a request names are read once, regardless of its number of choices and steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import torch

from service.engine.core.sequences.sequence import SequenceGroup
from service.engine.sampler.native_sampler import NativeSampler
from service.engine.sampler.torch_sampler import TorchSampler
from service.generation.requests.parameters import SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest
from tests.engine.byte_tokenizer import ByteTokenizer

VOCAB_SIZE = 64
NUM_CHOICES, NUM_STEPS = 16, 5


class CountedBias(Mapping[int, float]):
    """A logit bias that counts how often it is iterated."""

    def __init__(self, bias: dict[int, float]) -> None:
        self._bias = bias
        self.num_reads = 0

    def __getitem__(self, token_id: int) -> float:
        return self._bias[token_id]

    def __len__(self) -> int:
        return len(self._bias)

    def __iter__(self) -> Iterator[int]:
        self.num_reads += 1
        return iter(self._bias)


def group_of(bias: Mapping[int, float], stopping: StopParams) -> SequenceGroup:
    request = GenerationRequest("r", [1, 2], SamplingParams(logit_bias=bias), stopping, n=NUM_CHOICES)
    return SequenceGroup(
        request, ByteTokenizer(), serial=0, seed=0, arrived=0.0, eos_token_ids=(), max_model_len=99, cache_salt=""
    )


@pytest.mark.parametrize("kind", [NativeSampler, TorchSampler])
def test_a_logit_bias_is_read_once_for_all_choices_and_steps(kind: Any) -> None:
    bias = CountedBias(dict.fromkeys(range(VOCAB_SIZE - 1), -100.0) | {1000: 100.0})
    sequences = group_of(bias, StopParams()).sequences
    sampler = kind()
    for _ in range(NUM_STEPS):
        logits = np.zeros((NUM_CHOICES, VOCAB_SIZE), np.float32)
        tokens = sampler.sample(torch.from_numpy(logits) if kind is TorchSampler else logits, sequences)
        assert [token.token_id for token in tokens] == [VOCAB_SIZE - 1] * NUM_CHOICES
        for sequence, token in zip(sequences, tokens, strict=True):
            sequence.take(token.token_id, now=0.0)
    assert bias.num_reads == 1


@pytest.mark.parametrize("kind", [NativeSampler, TorchSampler])
def test_requests_in_one_batch_each_have_their_own(kind: Any) -> None:
    """Two requests of the same shape forbid different end tokens, and bias different tokens."""
    groups = [
        group_of({each: 50.0, each + 1: 60.0}, StopParams(min_tokens=9, stop_token_ids=[each + 1])) for each in (10, 20)
    ]
    sequences = [sequence for group in groups for sequence in group.sequences]
    logits = np.zeros((2 * NUM_CHOICES, VOCAB_SIZE), np.float32)
    tokens = kind().sample(torch.from_numpy(logits) if kind is TorchSampler else logits, sequences)
    assert [token.token_id for token in tokens] == [10] * NUM_CHOICES + [20] * NUM_CHOICES
