"""The sampler applies each request's parameters to its own row, and doesn't affect other rows."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace

import pytest
import torch

from service.engine.core.engine_core import SampledToken
from service.engine.sampler.torch_sampler import TorchSampler
from service.generation.errors import ConstraintFailed, SequenceError
from service.generation.requests.parameters import LogprobsOptions, SamplingParams, StopParams
from tests.engine.sampler.mask_constraints import Only, Panic
from tests.engine.sampler.random_rows import PARAMS, VOCAB_SIZE, num_rows_of, random_logits, random_sequence, token_ids
from tests.engine.sampler.sampling import reference_distribution, reference_tokens, sequence_of


@pytest.mark.parametrize("sampling", PARAMS.values(), ids=PARAMS)
def test_sampler_equals_reference(sampling: SamplingParams) -> None:
    """For random logits, histories and seeds, each token is the one that the float64 reference draws."""
    rng = random.Random(1)
    logits = random_logits(num_rows_of(sampling))
    sequences = [random_sequence(sampling, rng) for _ in range(len(logits))]
    chosen = token_ids(TorchSampler().sample(logits.clone(), sequences))
    expected = [reference_tokens(row, sequence) for row, sequence in zip(logits.tolist(), sequences, strict=True)]
    assert all(token in tokens for token, tokens in zip(chosen, expected, strict=True))
    assert sum(len(tokens) > 1 for tokens in expected) < 10  # nearly always only one token is right


def test_sampler_mixed_equals_alone() -> None:
    """A batch with all parameters gives each row exactly the result that it gets alone."""
    rng = random.Random(2)
    sequences = [random_sequence(sampling, rng) for sampling in PARAMS.values() for _ in range(4)]
    for index in range(0, len(sequences), 3):
        request = sequences[index].request
        options, stopping = LogprobsOptions(rng.randrange(21)), StopParams(min_tokens=rng.randrange(40))
        sequences[index].request = replace(request, logprobs=options, stopping=stopping)
    rng.shuffle(sequences)
    logits = random_logits(len(sequences))
    alone = [TorchSampler().sample(row.clone()[None], [each])[0] for row, each in zip(logits, sequences, strict=True)]
    assert TorchSampler().sample(logits.clone(), sequences) == alone
    backwards = TorchSampler().sample(logits.flip(0), sequences[::-1])
    assert backwards[::-1] == alone


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain", "top-k", "top-p", "min-p", "typical-p", "all"])
def test_sampler_draws_from_the_reference_distribution(name: str) -> None:
    """4,000 seeds of one row are distributed as the float64 reference: chi-square below its 99.9 % quantile."""
    logits = random_logits(1, seed=3)
    sequences = [sequence_of(PARAMS[name], generated=(20, 21, 21), seed=seed) for seed in range(4000)]
    counts = Counter(token_ids(TorchSampler().sample(logits.repeat(4000, 1), sequences)))
    distribution = reference_distribution(logits[0].tolist(), sequences[0])
    frequent = {token for token, probability in enumerate(distribution) if probability * 4000 >= 5}
    observed = [counts[token] for token in frequent]
    expected = [distribution[token] * 4000 for token in frequent]
    observed.append(4000 - sum(observed))
    expected.append(4000 - sum(expected))
    chi_square = sum((o - e) ** 2 / e for o, e in zip(observed, expected, strict=True) if e > 1e-6)
    degrees = len(frequent)
    # Wilson and Hilferty's approximation of the quantile; 3.09 is the normal quantile.
    assert chi_square < max(1, degrees) * (1 - 2 / (9 * degrees) + 3.09 * math.sqrt(2 / (9 * degrees))) ** 3
    assert not {token for token in counts if distribution[token] == 0}


def test_sampler_keeps_tied_tokens_together() -> None:
    """Tokens of equal logits are all inside or all outside a border, never split by their order."""
    logits = torch.full((1, VOCAB_SIZE), -1.0)
    logits[0, [10, 300, 600]] = 2.0
    for sampling in (SamplingParams(top_k=2), SamplingParams(top_p=0.01)):
        sequences = [sequence_of(sampling, seed=seed) for seed in range(200)]
        chosen = token_ids(TorchSampler().sample(logits.repeat(200, 1), sequences))
        assert set(chosen) == {10, 300, 600}


def test_sampler_greedy_takes_the_first_of_equals() -> None:
    """Greedy decoding of tied logits takes the lowest id, as transformers does."""
    logits = torch.zeros(3, VOCAB_SIZE)
    logits[:, [77, 400]] = 1.0
    assert token_ids(TorchSampler().sample(logits, [sequence_of(PARAMS["greedy"]) for _ in range(3)])) == [77, 77, 77]


@pytest.mark.parametrize("penalty", [1e-45, 1e-38, 3e38])
def test_sampler_any_repetition_penalty_leaves_numbers(penalty: float) -> None:
    """For any repetition penalty a token is chosen; for a tiny one, one of the used tokens."""
    logits = random_logits(1).abs()
    sequence = sequence_of(SamplingParams(repetition_penalty=penalty, frequency_penalty=2.0), prompt=(7, 8, 9))
    (token_id,) = token_ids(TorchSampler().sample(logits, [sequence]))
    assert (token_id in {7, 8, 9}) == (penalty < 1)


@pytest.mark.parametrize("temperature", [1e-320, 1e-30, 1e-3])
def test_sampler_smallest_temperature_is_greedy(temperature: float) -> None:
    """A temperature near zero gives the most likely token instead of an overflow."""
    logits = random_logits(20)
    sequences = [sequence_of(SamplingParams(temperature=temperature), seed=seed) for seed in range(20)]
    assert token_ids(TorchSampler().sample(logits.clone(), sequences)) == logits.argmax(dim=-1).tolist()


def test_sampler_largest_temperature_is_even() -> None:
    """An unbounded temperature draws uniformly among the allowed tokens."""
    logits = random_logits(300)
    sampling = SamplingParams(temperature=1e300, logit_bias=dict.fromkeys(range(10, VOCAB_SIZE), -math.inf))
    chosen = token_ids(TorchSampler().sample(logits, [sequence_of(sampling, seed=seed) for seed in range(300)]))
    assert len(chosen) == 300
    assert set(chosen) == set(range(10))


def test_sampler_counts_incrementally() -> None:
    """Counts that are updated at each step equal fresh counts, and a released sequence starts again."""
    rng = random.Random(4)
    kept, sequence = TorchSampler(), random_sequence(PARAMS["all"], rng)
    for step in range(150):  # beyond the first size of the table
        logits = random_logits(1, seed=step)
        result = kept.sample(logits.clone(), [sequence])
        assert result == TorchSampler().sample(logits, [sequence])
        if step == 70:
            kept.release(sequence)
            del sequence.token_ids[-40:]
        sequence.token_ids.append(step % 97 + 500)
    kept.release(sequence)
    kept.release(sequence)  # idempotent


def test_sampler_forbids_an_early_end() -> None:
    """Before min_tokens neither the end of text nor a stop token is drawn; afterwards they are."""
    logits = torch.zeros(1, VOCAB_SIZE)
    logits[0, [8, 9]] = 50.0
    logits[0, 4] = 10.0
    stopping = StopParams(min_tokens=2, stop_token_ids=(9, 10**9, -1))

    def sample(generated: tuple[int, ...]) -> int:
        sequence = sequence_of(PARAMS["greedy"], generated=generated, stopping=stopping, eos_token_ids=(8,))
        return token_ids(TorchSampler().sample(logits.clone(), [sequence]))[0]

    assert [sample(()), sample((4,)), sample((4, 4))] == [4, 4, 8]


def test_sampler_fails_a_row_whose_allowed_tokens_only_end_it_too_early() -> None:
    """The request is to blame, not the model; an id outside the vocabulary is ignored."""
    allowed = SamplingParams(allowed_token_ids=(8, VOCAB_SIZE))
    early, late = (
        sequence_of(allowed, generated=generated, stopping=StopParams(min_tokens=1), eos_token_ids=(8,))
        for generated in ((), (4,))
    )
    failed, last = TorchSampler().sample(random_logits(2), [early, late])
    assert isinstance(failed, ConstraintFailed)
    assert isinstance(last, SampledToken)
    assert last.token_id == 8


def test_sampler_bias_outside_the_vocabulary_does_nothing() -> None:
    """A bias for an id outside the vocabulary changes nothing."""
    logits = random_logits(1)
    strange = sequence_of(SamplingParams(logit_bias={VOCAB_SIZE: 9.0, -1: 9.0}))
    assert TorchSampler().sample(logits.clone(), [strange]) == TorchSampler().sample(logits, [sequence_of()])


@pytest.mark.parametrize("sampling", [PARAMS["plain"], PARAMS["greedy"], PARAMS["all"]])
def test_sampler_constraint_masks_its_row_only(sampling: SamplingParams) -> None:
    """A constrained row takes allowed tokens only; other rows are as without the constraint."""
    logits = random_logits(60)
    allowed = (0, 31, 32, 63, 255, 256, 699)
    rows = [sequence_of(sampling, seed=seed, constraint=Only(*allowed) if seed % 2 else None) for seed in range(60)]
    results = token_ids(TorchSampler().sample(logits.clone(), rows))
    free = token_ids(TorchSampler().sample(logits, [sequence_of(sampling, seed=seed) for seed in range(60)]))
    assert set(results[1::2]) <= set(allowed)
    assert len(set(results[1::2])) > 1
    assert results[::2] == free[::2]


@pytest.mark.parametrize("sampling", [PARAMS["plain"], PARAMS["greedy"], PARAMS["all"]])
@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        (Only(), "allows no token"),
        (Only(1, fails=RuntimeError), "constraint failed"),
        (Only(1, fails=Panic), "constraint failed"),
    ],
)
def test_sampler_bad_constraint_fails_its_row_only(sampling: SamplingParams, constraint: Only, message: str) -> None:
    """A constraint that allows nothing, raises or panics gives ConstraintFailed for its row."""
    logits = random_logits(3)
    good = [sequence_of(sampling, seed=seed) for seed in (1, 2)]
    bad = sequence_of(sampling, constraint=constraint)
    first, failed, last = TorchSampler().sample(logits.clone(), [good[0], bad, good[1]])
    assert isinstance(failed, ConstraintFailed)
    assert message in str(failed)
    assert [first, last] == TorchSampler().sample(logits[[0, 2]], good)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("sampling", [PARAMS["plain"], PARAMS["greedy"], PARAMS["all"]])
def test_sampler_logits_that_are_no_numbers_fail_their_row_only(bad: float, sampling: SamplingParams) -> None:
    """A row that is not finite gives SequenceError; other rows are as without it."""
    logits = random_logits(3)
    sequences = [sequence_of(sampling, seed=seed) for seed in range(3)]
    expected = TorchSampler().sample(logits.clone(), sequences)
    logits[1, 5] = bad
    first, failed, last = TorchSampler().sample(logits, sequences)
    assert isinstance(failed, SequenceError)
    assert [first, last] == [expected[0], expected[2]]


def test_sampler_logprobs_are_of_the_unmodified_distribution() -> None:
    """Logprobs ignore every parameter; the candidates are the requested number of most likely tokens, in order."""
    logits = random_logits(3)
    expected = logits.double().log_softmax(dim=-1)
    sequences = [
        sequence_of(PARAMS["all"], generated=(20, 20), top_logprobs=20),
        sequence_of(PARAMS["plain"]),
        sequence_of(PARAMS["greedy"], top_logprobs=0),
    ]
    first, second, third = TorchSampler().sample(logits.clone(), sequences)
    assert isinstance(first, SampledToken)
    assert first.logprob is not None
    assert first.logprob.logprob == pytest.approx(expected[0, first.token_id].item(), abs=1e-5)
    best = expected[0].topk(20)
    assert [token for token, _ in first.logprob.top] == best.indices.tolist()
    assert [logprob for _, logprob in first.logprob.top] == pytest.approx(best.values.tolist(), abs=1e-5)
    assert isinstance(second, SampledToken)
    assert second.logprob is None
    assert isinstance(third, SampledToken)
    assert third.logprob is not None
    assert third.logprob.top == ()
