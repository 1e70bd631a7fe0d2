"""A slow and simple sampler in float64 to compare the engine's sampler with, and sequences to sample for."""

from __future__ import annotations

import math
from collections import abc

import numpy as np

from service.engine.core.sequences.constraint_state import ConstraintState
from service.engine.core.sequences.sequence import Sequence, SequenceGroup
from service.engine.tokens.watermark import Watermark
from service.generation.requests.parameters import LogprobsOptions, SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest
from tests.engine.byte_tokenizer import ByteTokenizer

_MASK = 2**64 - 1


def sequence_of(
    sampling: SamplingParams | None = None,
    *,
    prompt: abc.Sequence[int] = (1, 2, 3),
    generated: abc.Sequence[int] = (),
    stopping: StopParams | None = None,
    top_logprobs: int | None = None,
    constraint: ConstraintState | None = None,
    eos_token_ids: abc.Collection[int] = (),
    seed: int = 0,
) -> Sequence:
    """Return a sequence in the middle of its answer."""
    group = SequenceGroup(
        GenerationRequest(
            "r",
            list(prompt),
            sampling or SamplingParams(),
            stopping or StopParams(),
            logprobs=None if top_logprobs is None else LogprobsOptions(top_logprobs),
        ),
        ByteTokenizer(),
        serial=0,
        seed=seed,
        arrived=0.0,
        eos_token_ids=eos_token_ids,
        max_model_len=4096,
        cache_salt="",
    )
    sequence = group.sequences[0]
    sequence.token_ids += generated
    sequence.constraint = constraint
    return sequence


def reference_uniform(seed: int, index: int) -> float:
    """Compute SplitMix64 with Python's integers."""

    def mix(z: int) -> int:
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return z ^ (z >> 31)

    golden = 0x9E3779B97F4A7C15
    return (mix((mix(seed ^ golden) + index * golden) & _MASK) >> 11) / 2**53


def reference_distribution(logits: abc.Sequence[float], sequence: Sequence) -> list[float]:
    """Return the probability of each token with all parameters of the request except constraints."""
    sampling = sequence.request.sampling
    logits = list(logits)
    generated = sequence.token_ids[sequence.num_prompt_tokens :]
    for token in set(sequence.token_ids):
        penalty = sampling.repetition_penalty
        logits[token] = logits[token] / penalty if logits[token] > 0 else logits[token] * penalty
    for token in set(generated):
        logits[token] -= sampling.frequency_penalty * generated.count(token) + sampling.presence_penalty
    for token, bias in sampling.logit_bias.items():
        logits[token] += bias
    if sampling.watermark:
        greens = Watermark().greens(sequence.token_ids[-1:], np.arange(len(logits), dtype=np.uint32))[0]
        logits = [logit + Watermark().delta * bool(green) for logit, green in zip(logits, greens, strict=True)]
    if sampling.allowed_token_ids:
        logits = [logit if token in sampling.allowed_token_ids else -math.inf for token, logit in enumerate(logits)]
    if len(generated) < sequence.request.stopping.min_tokens:
        for token in sequence.end_token_ids:
            logits[token] = -math.inf
    if sampling.temperature == 0:
        best = logits.index(max(logits))
        return [float(token == best) for token in range(len(logits))]
    return _truncated([logit / sampling.temperature for logit in logits], sampling)


def _truncated(logits: list[float], sampling: SamplingParams) -> list[float]:
    probabilities = _softmax(logits)
    if sampling.top_k is not None:
        border = sorted(probabilities, reverse=True)[: sampling.top_k][-1]
        probabilities = _renormalised([p if p >= border else 0.0 for p in probabilities])
    if sampling.top_p < 1:
        probabilities = _nearest(probabilities, [-p for p in probabilities], sampling.top_p)
    if sampling.min_p:
        border = sampling.min_p * max(probabilities)
        probabilities = _renormalised([p if p >= border else 0.0 for p in probabilities])
    if sampling.typical_p < 1:
        entropy = -sum(p * math.log(p) for p in probabilities if p)
        distances = [abs(-math.log(p) - entropy) if p else math.inf for p in probabilities]
        probabilities = _nearest(probabilities, distances, sampling.typical_p)
    return probabilities


def _nearest(probabilities: list[float], keys: list[float], mass: float) -> list[float]:
    """Keep tokens in the order of their keys until their total probability reaches `mass`."""
    kept: set[int] = set()
    reached = 0.0
    for token in sorted(range(len(keys)), key=keys.__getitem__):
        if reached >= mass:
            break
        kept.add(token)
        reached += probabilities[token]
    return _renormalised([p if token in kept else 0.0 for token, p in enumerate(probabilities)])


def _softmax(logits: list[float]) -> list[float]:
    largest = max(logits)
    return _renormalised([math.exp(logit - largest) for logit in logits])


def _renormalised(weights: list[float]) -> list[float]:
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def reference_tokens(logits: abc.Sequence[float], sequence: Sequence, slack: float = 1e-5) -> set[int]:
    """Return the tokens at the sequence's draw in the cumulative distribution; several if rounding may decide."""
    distribution = reference_distribution(logits, sequence)
    if sequence.request.sampling.temperature == 0:
        return {distribution.index(1.0)}
    point = reference_uniform(sequence.seed, sequence.num_generated_tokens)
    below, tokens = 0.0, set()
    for token, probability in enumerate(distribution):
        if probability and below - slack <= point <= below + probability + slack:
            tokens.add(token)
        below += probability
    return tokens
