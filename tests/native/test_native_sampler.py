"""The sampler of the native backend gives each row the token that the torch sampler gives it, in any company."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from service.engine.core import SampledToken
from service.engine.sampler import TorchSampler
from service.engine.sampler.native_sampler import NativeSampler
from service.engine.sequence import Sequence
from service.generation.errors import SequenceError
from service.generation.parameters import LogprobsOptions, SamplingParams, StopParams
from tests.engine.sampling import sequence_of
from tests.engine.test_sampler import PARAMS, VOCAB_SIZE, random_sequence, token_ids

PLAIN = {
    "greedy": SamplingParams(temperature=0),
    "temperature": SamplingParams(temperature=1.3),
    "top-k": SamplingParams(top_k=20),
    "top-p": SamplingParams(temperature=0.7, top_p=0.9),
    "min-p": SamplingParams(min_p=0.05),
    "all": SamplingParams(temperature=2.0, top_k=600, top_p=0.95, min_p=0.001),
}


def random_logits(rows: int, seed: int = 0, vocab_size: int = VOCAB_SIZE) -> NDArray[np.float32]:
    return (2.5 * np.random.default_rng(seed).standard_normal((rows, vocab_size))).astype(np.float32)


def torch_tokens(logits: NDArray[np.float32], sequences: list[Sequence]) -> list[SampledToken | SequenceError]:
    return TorchSampler().sample(torch.from_numpy(logits.copy()), sequences)


@pytest.mark.parametrize("vocab_size", [VOCAB_SIZE, 4_000])
@pytest.mark.parametrize("sampling", PLAIN.values(), ids=PLAIN)
def test_a_plain_row_gets_the_torch_samplers_token(sampling: SamplingParams, vocab_size: int) -> None:
    """For 2,000 seeds; one in a thousand may lie so near a border that rounding decides."""
    differing = 0
    for part in range(10):
        logits = random_logits(200, part, vocab_size)
        sequences = [sequence_of(sampling, generated=range(part), seed=2**62 + 200 * part + row) for row in range(200)]
        found = token_ids(NativeSampler().sample(logits.copy(), sequences))
        differing += sum(a != b for a, b in zip(found, token_ids(torch_tokens(logits, sequences)), strict=True))
    assert differing <= 2


def mixed(rng: random.Random) -> list[Sequence]:
    """Plain rows between rows of all other parameters, of logprobs and of minimal lengths."""
    sequences = [random_sequence(sampling, rng) for sampling in (*PARAMS.values(), *PLAIN.values()) for _ in range(3)]
    for index in range(0, len(sequences), 5):
        options, stopping = LogprobsOptions(rng.randrange(4)), StopParams(min_tokens=rng.randrange(20))
        sequences[index].request = replace(sequences[index].request, logprobs=options, stopping=stopping)
    rng.shuffle(sequences)
    return sequences


def test_all_kinds_of_rows_share_a_call_and_keep_their_order() -> None:
    sequences = mixed(random.Random(1))
    logits = random_logits(len(sequences))
    assert NativeSampler().sample(logits.copy(), sequences) == torch_tokens(logits, sequences)


def test_a_rows_token_does_not_depend_on_its_neighbours_or_its_place() -> None:
    sequences = mixed(random.Random(2))
    logits = random_logits(len(sequences))
    alone = [NativeSampler().sample(row[None].copy(), [each])[0] for row, each in zip(logits, sequences, strict=True)]
    assert NativeSampler().sample(logits.copy(), sequences) == alone
    order = random.Random(3).sample(range(len(sequences)), len(sequences) // 2)
    some = NativeSampler().sample(logits.copy(), [sequences[index] for index in order], order)
    assert some == [alone[index] for index in order]


def test_plain_rows_alone_are_taken_from_the_rows_that_are_named() -> None:
    logits = random_logits(6)
    sequences = [sequence_of(PLAIN["greedy"]) for _ in range(3)]
    assert token_ids(NativeSampler().sample(logits, sequences, [5, 0, 3])) == logits[[5, 0, 3]].argmax(1).tolist()


def test_a_row_is_plain_after_its_minimal_length_only() -> None:
    """Until then the end of text isn't chosen; then it is, by the sampler that was used before."""
    logits = np.zeros((1, VOCAB_SIZE), dtype=np.float32)
    logits[0, [8, 4]] = 50.0, 10.0
    sampler, chosen = NativeSampler(), []
    sequence = sequence_of(PLAIN["greedy"], stopping=StopParams(min_tokens=2), eos_token_ids=(8,))
    for _ in range(3):
        (result,) = token_ids(sampler.sample(logits.copy(), [sequence]))
        sequence.token_ids.append(result)
        chosen.append(result)
    assert chosen == [4, 4, 8]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("sampling", PLAIN.values(), ids=PLAIN)
def test_logits_that_are_no_numbers_fail_their_row_only(sampling: SamplingParams, bad: float) -> None:
    logits = random_logits(3)
    sequences = [sequence_of(sampling, seed=seed) for seed in range(3)]
    expected = NativeSampler().sample(logits.copy(), sequences)
    logits[1, 5] = bad
    first, failed, last = NativeSampler().sample(logits, sequences)
    assert isinstance(failed, SequenceError)
    assert [first, last] == [expected[0], expected[2]]
