"""A row's sample has the same bits in any batch and for any number of threads, even where rounding could decide."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from service.engine.core.engine_core import SampledToken
from service.engine.sampler.torch_sampler import TorchSampler
from service.engine.sampler.truncation import truncate
from service.generation.requests.parameters import SamplingParams
from tests.engine.sampler.sampling import sequence_of


def falling(rows: int, vocab_size: int) -> Tensor:
    """Return random logits [rows, vocabulary] whose largest in each row is 0."""
    logits = torch.randn(rows, vocab_size, generator=torch.Generator().manual_seed(0)) * 2.5
    return logits - logits.max(dim=-1, keepdim=True).values


def truncated(logits: Tensor, *params: SamplingParams) -> Tensor:
    kept = logits.clone()
    truncate(kept, params)
    return kept


def test_equally_likely_candidates_have_one_order() -> None:
    """The order of two equal candidates doesn't depend on the number of candidates of another row."""
    logits = falling(20, 700).round()
    sampler = TorchSampler()
    for row in logits:
        few, many = sequence_of(top_logprobs=3), sequence_of(top_logprobs=20)
        (alone,) = sampler.sample(row.clone()[None], [few])
        first, _ = sampler.sample(row.repeat(2, 1), [few, many])
        assert isinstance(alone, SampledToken)
        assert first == alone


def test_top_p_cuts_at_one_token_whatever_top_k_a_neighbour_has() -> None:
    """A sum that just reaches top_p is rounded alike in rows of any width."""
    for row in falling(200, 700):
        largest = row.topk(7).values
        mass = largest.softmax(dim=-1).cumsum(dim=-1, dtype=torch.float64)
        mine = SamplingParams(top_k=7, top_p=(mass[3] / mass[-1]).item())
        together = truncated(row.repeat(2, 1), mine, SamplingParams(top_k=60, top_p=0.9))
        assert torch.equal(together[:1], truncated(row[None], mine))


@pytest.mark.parametrize("num_threads", [1, 2])
def test_typical_p_keeps_one_set_alone_and_in_company(num_threads: int) -> None:
    """The set is the same for a vocabulary that is so large that threads share a row's sums."""
    logits = falling(8, 151_936) / 10
    params = SamplingParams(typical_p=0.3)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(num_threads)
        together = truncated(logits, *[params] * len(logits))
        alone = torch.cat([truncated(row[None], params) for row in logits])
    finally:
        torch.set_num_threads(before)
    assert alone.isinf().any()
    assert torch.equal(together, alone)
