"""The torch decoder on a CUDA device: transformers' logits, and the same bits alone, in company and in chunks."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch

from service.engine.models.attention.accelerator import Accelerator
from service.engine.models.attention.decode_graphs import GraphLimits
from service.engine.models.checkpoint.checkpoint import Checkpoint
from service.engine.models.cuda.device import CudaRecorder
from service.engine.models.torch.decoder import Decoder
from service.engine.models.torch.load_decoder import load_decoder
from service.engine.models.torch.supported import decoder_unsupported_reason
from tests.engine.folders.tiny_models import BLOCK_SIZE, NUM_BLOCKS, Part, run
from tests.models.comparison import save
from tests.models.families import LENGTH, NAMES, config_of, logits_of, model_of, some_tokens

pytestmark = pytest.mark.cuda
DEVICE = torch.device("cuda")
SUPPORTED = [name for name in NAMES if decoder_unsupported_reason(config_of(name)) is None]
SCATTERED = [31, 2, 17, 5, 30, 9, 11, 0, 22, 4, 6, 8]
CUTS = [0, 50, 51, 52, 69, LENGTH]


@cache
def decoder_of(name: str) -> Decoder:
    """Return the decoder of a model with invariant kernels, and its cache."""
    from service.engine.models.cuda.kernels import TritonKernels  # noqa: PLC0415  Triton is not installed on CPUs

    kernels = TritonKernels(128, is_invariant=True)
    accelerator = Accelerator(kernels, CudaRecorder(DEVICE), GraphLimits(4, 128, 1 << 30))
    with TemporaryDirectory() as folder:
        model = model_of(name)
        save(model, Path(folder))
        checkpoint = Checkpoint(Path(folder))
        decoder = load_decoder(model.config, checkpoint, torch.float32, DEVICE, 128, accelerator=accelerator)
    decoder.allocate(NUM_BLOCKS, BLOCK_SIZE)
    return decoder


def chunks(name: str, cuts: list[int], others: int) -> torch.Tensor:
    """Return the logits of a prompt that is computed in chunks with `others` other sequences."""
    decoder, ids, other = decoder_of(name), some_tokens(0), some_tokens(1, 40)
    found = []
    for start, end in pairwise(cuts):
        parts = [Part(ids, start, end, SCATTERED)]
        parts += [Part(other, 0, 9 + number, [20 + 3 * number, 21 + 3 * number, 22]) for number in range(others)]
        found.append(run(decoder, parts[::-1])[-1].cpu())
    return torch.cat(found)


@pytest.mark.parametrize("name", SUPPORTED)
def test_logits_are_those_of_transformers(name: str) -> None:
    found = chunks(name, CUTS, 1)
    assert np.abs(found.numpy() - logits_of(model_of(name), some_tokens(0))).max() <= 1e-4


@pytest.mark.parametrize("name", SUPPORTED)
def test_bits_are_the_same_alone_in_company_and_in_chunks(name: str) -> None:
    whole = chunks(name, [0, LENGTH], 0)
    assert torch.equal(whole, chunks(name, CUTS, 2))
    assert torch.equal(whole, chunks(name, [0, 1, *range(60, LENGTH + 1)], 0))
