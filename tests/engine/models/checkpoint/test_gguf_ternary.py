"""Ternary blocks of GGUF files: the numbers of the blocks that they are repacked to, and a model's logits."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind

from service.engine.models.checkpoint.gguf.gguf_checkpoint import GgufCheckpoint
from service.engine.models.checkpoint.gguf.ternary import added_bytes, repacked
from service.engine.models.checkpoint.gguf.types import BLOCKS
from tests.engine.folders.gguf_backends import backend_of_file
from tests.engine.folders.gguf_families import FAMILIES
from tests.engine.folders.gguf_writer import write_file
from tests.engine.folders.tiny_models import Part, run
from tests.models.families import random_model, some_tokens
from tests.models.shapes import small

TYPES = (Kind.TQ1_0, Kind.TQ2_0)
LENGTH = 40


@pytest.mark.parametrize("kind", TYPES)
def test_repacked_blocks_mean_the_same_numbers(kind: Kind) -> None:
    numbers = np.random.default_rng(0).normal(size=(7, 512)).astype(np.float32)
    numbers[0] = 0
    stored = gguf.quantize(numbers, kind)
    blocks = repacked(BLOCKS[kind], stored)
    assert blocks.nbytes - stored.nbytes == added_bytes(BLOCKS[kind], stored.nbytes)
    found = gguf.dequantize(blocks, Kind.Q2_K)
    expected = gguf.dequantize(stored, kind)
    assert set(np.sign(expected).reshape(-1)) == {-1, 0, 1}
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", TYPES)
def test_a_model_in_ternary_blocks_is_that_of_their_numbers(kind: Kind, tmp_path: Path) -> None:
    """Distributions are those of the widened weights. BitNet is published in such files."""
    family, file = FAMILIES["bitnet"], tmp_path / "tiny.gguf"
    sizes = {"hidden_size": 256, "intermediate_size": 256, "head_dim": 64}
    write_file(family, random_model(small("bitnet", **family.options | sizes)), file, kind)
    packed, widened = (logits_of(file, each).log_softmax(-1) for each in (GgufCheckpoint, Widened))
    assert (widened.exp() * (widened - packed)).sum(-1).abs().max() <= 1e-4
    assert (packed != widened).any(), "both are widened"


def logits_of(file: Path, checkpoint: type[GgufCheckpoint]) -> torch.Tensor:
    backend = backend_of_file(file, "float32", checkpoint)
    backend.allocate(16, 16)
    return run(backend, [Part(some_tokens(0, LENGTH), 0, LENGTH, [3, 0, 5])], 16)[0]


class Widened(GgufCheckpoint):
    """A file whose weights are computed as numbers."""

    block_type = None
