"""A request's sampling and stop parameters with every default filled in.

Owns the defaults that callers see, and the translation to the engine's own values. Pure; any thread may call it.
"""

from __future__ import annotations

import secrets

from sluice.v1 import sampling_pb2

from service.engine import types
from service.generation.errors import InvalidRequest

_SEED_BITS = 63  # of one that is drawn


def resolve_sampling(given: sampling_pb2.SamplingParams, vocab_size: int) -> sampling_pb2.SamplingParams:
    """`given` with its defaults, the seed drawn if there is none. `top_k` has no default: it is off.

    Raises InvalidRequest for a logit bias on a token that the model doesn't have.
    """
    resolved = sampling_pb2.SamplingParams(
        temperature=1.0,
        top_p=1.0,
        min_p=0.0,
        typical_p=1.0,
        frequency_penalty=0.0,
        presence_penalty=0.0,
        repetition_penalty=1.0,
        watermark=False,
    )
    resolved.MergeFrom(given)
    if not resolved.HasField("seed"):
        resolved.seed = secrets.randbits(_SEED_BITS)
    for token_id in given.logit_bias:
        check_token(token_id, f"sampling.logit_bias[{token_id}]", vocab_size)
    return resolved


def with_next_seed(resolved: sampling_pb2.SamplingParams) -> sampling_pb2.SamplingParams:
    """The same parameters with another drawn seed, the one after theirs: for one more prompt of the same request."""
    following = sampling_pb2.SamplingParams()
    following.CopyFrom(resolved)
    following.seed = (resolved.seed + 1) % 2**_SEED_BITS
    return following


def resolve_stopping(
    given: sampling_pb2.StopParams, *, vocab_size: int, max_new_tokens: int
) -> sampling_pb2.StopParams:
    """`given` with its defaults; `max_tokens` is cut to `max_new_tokens`, what the context has room for.

    Raises InvalidRequest for a stop token that the model doesn't have.
    """
    resolved = sampling_pb2.StopParams(min_tokens=0, ignore_eos=False)
    resolved.MergeFrom(given)
    resolved.max_tokens = min(given.max_tokens, max_new_tokens) if given.HasField("max_tokens") else max_new_tokens
    for index, token_id in enumerate(given.stop_token_ids):
        check_token(token_id, f"stopping.stop_token_ids[{index}]", vocab_size)
    return resolved


def to_engine_sampling(resolved: sampling_pb2.SamplingParams) -> types.SamplingParams:
    """The engine's form of resolved sampling parameters."""
    return types.SamplingParams(
        temperature=resolved.temperature,
        top_k=resolved.top_k,
        top_p=resolved.top_p,
        min_p=resolved.min_p,
        typical_p=resolved.typical_p,
        repetition_penalty=resolved.repetition_penalty,
        frequency_penalty=resolved.frequency_penalty,
        presence_penalty=resolved.presence_penalty,
        logit_bias=dict(resolved.logit_bias),
        seed=resolved.seed,
        watermark=resolved.watermark,
    )


def to_engine_stopping(resolved: sampling_pb2.StopParams) -> types.StopParams:
    """The engine's form of resolved stop parameters."""
    return types.StopParams(
        max_tokens=resolved.max_tokens,
        min_tokens=resolved.min_tokens,
        stop=tuple(resolved.stop),
        stop_token_ids=tuple(resolved.stop_token_ids),
        ignore_eos=resolved.ignore_eos,
    )


def check_token(token_id: int, field: str, vocab_size: int) -> None:
    """Raise InvalidRequest naming `field` for a token that the model doesn't have."""
    if token_id >= vocab_size:
        raise InvalidRequest(field, f"there is no token {token_id}; the vocabulary has {vocab_size} tokens")
