"""A step synchronizes with its device only once, for all of its results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from service.engine.core.sequences.sequence import Sequence
from service.engine.models.torch.load_decoder import load_decoder
from service.engine.sampler.torch_sampler import TorchSampler
from service.engine.tokens.watermark import Watermark
from service.generation.errors import SequenceError
from service.generation.requests.parameters import LogprobsOptions, SamplingParams, StopParams
from tests.engine.accelerator_double import PlainKernels, accelerator
from tests.engine.folders.tiny_models import BLOCK_SIZE, MAX_POSITIONS, NUM_BLOCKS, Part, batch_of, save, spec, tokens
from tests.engine.pretended_device import PretendedDevice, on_device
from tests.engine.sampler.mask_constraints import Only
from tests.engine.sampler.sampling import sequence_of

VOCAB_SIZE = 701  # not a multiple of a mask word's bits
WATERMARK = Watermark()


class Instead(Only):
    """A constraint that replaces the drawn token by another."""

    def replace_token(self, token_id: int, num_left: int) -> int:
        assert num_left > 0
        return next(allowed for allowed in self.allowed if allowed != token_id)


def sequences() -> list[Sequence]:
    """Return one sequence for each kind of sampling parameters."""
    drawn = [
        SamplingParams(temperature=0),
        SamplingParams(top_k=20, top_p=0.8),
        SamplingParams(top_p=0.5),
        SamplingParams(min_p=0.1, typical_p=0.7, temperature=3),
        SamplingParams(repetition_penalty=1.4, frequency_penalty=0.5, presence_penalty=0.5),
        SamplingParams(logit_bias={3: 5.0, 700: 40.0}),
        SamplingParams(watermark=True),
    ]
    made = [sequence_of(each, generated=[5, 6, 5], seed=seed, top_logprobs=2) for seed, each in enumerate(drawn)]
    made += [
        sequence_of(stopping=StopParams(min_tokens=9), eos_token_ids=[4], top_logprobs=3),
        sequence_of(constraint=Only(7, 31, 32, 650, 700)),
        sequence_of(constraint=Only()),  # fails
    ]
    return made


def sample(make: Callable[[], list[Sequence]]) -> list[Any]:
    """Return each row's token and logprobs or its error text; rows are in another order than the sequences."""
    wanted = make()
    logits = torch.randn(len(wanted), VOCAB_SIZE, generator=torch.Generator().manual_seed(1)) * 2
    found = TorchSampler(WATERMARK).sample(logits, wanted, list(range(len(wanted)))[::-1])
    return [str(each) if isinstance(each, SequenceError) else each for each in found]


def test_sampling_waits_once_whatever_is_asked_for() -> None:
    """The results equal those on a CPU, where some operations are implemented differently."""
    found, waits = on_device(lambda: sample(sequences))
    assert waits == ["cpu"]
    assert found == sample(sequences)
    assert sum(isinstance(each, str) for each in found) == 1


def test_a_token_that_is_replaced_is_requested_again() -> None:
    """The logprob of a replaced token is not that of the drawn token, so a second wait is needed."""

    def make() -> list[Sequence]:
        return [sequence_of(constraint=Instead(7, 31), top_logprobs=1), sequence_of(top_logprobs=1)]

    found, waits = on_device(lambda: sample(make))
    assert waits == ["cpu", "cpu"]
    assert found == sample(make)


def test_prompts_logprobs_wait_once_a_prompt() -> None:
    options = LogprobsOptions(2, token_ids=(1, 700))

    def logprobs() -> Any:
        logits = torch.randn(5, VOCAB_SIZE, generator=torch.Generator().manual_seed(1))
        return TorchSampler(WATERMARK).prompt_logprobs(logits, 1, [4, 5, 6], options)

    found, waits = on_device(logprobs)
    assert waits == ["cpu"]
    assert found == logprobs()


class WithoutWaits(PlainKernels):
    """Kernels that don't read values on the host; the results of attention don't matter here."""

    def attend(self, queries: Tensor, *_args: Any, **_kwargs: Any) -> Tensor:
        return queries.clone()


@pytest.mark.parametrize("records", [False, True])
def test_a_forward_never_waits(tmp_path: Path, records: bool) -> None:  # noqa: FBT001
    """Mixed batches and replayed steps don't wait, so that sampling can be enqueued after the forward."""
    save("qwen3", tmp_path)
    source, made = spec(tmp_path), accelerator(kernels=WithoutWaits())
    decoder = load_decoder(
        source.config, source.checkpoint, torch.float32, torch.device("cpu"), MAX_POSITIONS, accelerator=made
    )
    mixed = batch_of([Part(tokens(20), 0, 20, [0, 1, 2]), Part(tokens(9), 8, 9, [4, 5])])
    decodes = batch_of([Part(tokens(21), 20, 21, [0, 1, 2]), Part(tokens(10), 9, 10, [4, 5])])
    with PretendedDevice() as device:
        decoder.allocate(NUM_BLOCKS, BLOCK_SIZE)
        if records:
            decoder.record_decodes()
        device.waits.clear()
        decoder.forward(mixed)
        decoder.forward(decodes)
    assert device.waits == []
    assert decoder.num_replays == int(records)
