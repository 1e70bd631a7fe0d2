"""Sampling and stop parameters with their defaults."""

from __future__ import annotations

import pytest
from sluice.v1 import sampling_pb2

from service.engine import types
from service.generation.errors import InvalidRequest
from service.pipeline.parameters import resolve_sampling, resolve_stopping, to_engine_sampling, to_engine_stopping


def test_sampling_defaults_are_filled_in() -> None:
    """Every default is echoed, and means the same to the engine as not asking."""
    resolved = resolve_sampling(sampling_pb2.SamplingParams(seed=7), 100)
    defaults = {"temperature": 1, "top_p": 1, "min_p": 0, "typical_p": 1, "repetition_penalty": 1}
    defaults |= {"frequency_penalty": 0, "presence_penalty": 0, "watermark": False}
    assert {field.name: value for field, value in resolved.ListFields()} == defaults | {"seed": 7}
    assert to_engine_sampling(resolved) == types.SamplingParams(seed=7)


def test_sampling_keeps_what_is_given() -> None:
    """Given values stay, zeros too."""
    given = sampling_pb2.SamplingParams(
        temperature=0, top_p=0.5, top_k=3, min_p=0.25, typical_p=0.5, frequency_penalty=-1, presence_penalty=1.5,
        repetition_penalty=2, seed=2**64 - 1, logit_bias={5: -100}, watermark=True,
    )  # fmt: skip
    assert to_engine_sampling(resolve_sampling(given, 100)) == types.SamplingParams(
        temperature=0, top_p=0.5, top_k=3, min_p=0.25, typical_p=0.5, frequency_penalty=-1, presence_penalty=1.5,
        repetition_penalty=2, seed=2**64 - 1, logit_bias={5: -100}, watermark=True,
    )  # fmt: skip


def test_seed_is_drawn_once_and_told() -> None:
    """A request without a seed gets one that can be given again."""
    seeds = {resolve_sampling(sampling_pb2.SamplingParams(), 100).seed for _ in range(20)}
    assert len(seeds) == 20


@pytest.mark.parametrize(("max_tokens", "resolved"), [(None, 50), (10, 10), (1000, 50)])
def test_max_tokens_is_what_the_context_has_room_for(max_tokens: int | None, resolved: int) -> None:
    """Without a limit, or with too large a one, the context is the limit."""
    given = sampling_pb2.StopParams(max_tokens=max_tokens)
    assert resolve_stopping(given, vocab_size=100, max_new_tokens=50).max_tokens == resolved


def test_stopping_is_handed_on() -> None:
    """Every stop parameter reaches the engine."""
    given = sampling_pb2.StopParams(max_tokens=9, min_tokens=2, stop=["a", "b"], stop_token_ids=[3], ignore_eos=True)
    resolved = resolve_stopping(given, vocab_size=100, max_new_tokens=50)
    assert to_engine_stopping(resolved) == types.StopParams(9, 2, ("a", "b"), (3,), ignore_eos=True)


def test_unknown_tokens_are_refused_by_their_path() -> None:
    """A token that the vocabulary doesn't have is the caller's error."""
    with pytest.raises(InvalidRequest, match="100 tokens") as refusal:
        resolve_sampling(sampling_pb2.SamplingParams(logit_bias={99: 1, 100: 1}), 100)
    assert refusal.value.field == "sampling.logit_bias[100]"
    with pytest.raises(InvalidRequest) as refusal:
        resolve_stopping(sampling_pb2.StopParams(stop_token_ids=[1, 100]), vocab_size=100, max_new_tokens=5)
    assert refusal.value.field == "stopping.stop_token_ids[1]"
