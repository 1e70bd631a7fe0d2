"""The torch decoder computes every family's layer plan: transformers' logits, on a small random model."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import sluice_native
import torch

from service.engine.models.checkpoint.checkpoint import Checkpoint
from service.engine.models.plans.adapter_modules import to_step_modules
from service.engine.models.plans.families.table import FAMILIES, plan_of
from service.engine.models.torch.decoder import Decoder
from service.engine.models.torch.load_decoder import load_decoder
from service.engine.models.torch.step_tensors import all_tensor_shapes
from service.engine.models.torch.supported import decoder_unsupported_reason
from tests.engine.folders.tiny_models import BLOCK_SIZE, NUM_BLOCKS, Part, run
from tests.models.comparison import save
from tests.models.families import LENGTH, NAMES, adapter_of, config_of, logits_of, model_of, some_tokens
from tests.native.decoders import Sequence, native, step

SUPPORTED = [name for name in NAMES if decoder_unsupported_reason(config_of(name)) is None]
CPU = torch.device("cpu")
SCATTERED = [31, 2, 17, 5, 30, 9, 11, 0, 22, 4, 6, 8]
CUTS = [0, 50, 51, 52, 69, LENGTH]


@cache
def decoder_of(name: str) -> Decoder:
    """Return the torch decoder of a model, with its cache."""
    with TemporaryDirectory() as folder:
        model = model_of(name)
        save(model, Path(folder))
        decoder = load_decoder(model.config, Checkpoint(Path(folder)), torch.float32, CPU, 128)
    decoder.allocate(NUM_BLOCKS, BLOCK_SIZE)
    return decoder


@pytest.mark.parametrize("name", SUPPORTED)
def test_logits_are_those_of_transformers(name: str) -> None:
    """A prompt in chunks, batched with other sequences, has the logits of the prompt alone in transformers."""
    model, ids, other = model_of(name), some_tokens(0), some_tokens(1, 40)
    decoder = decoder_of(name)
    found = []
    for start, end in pairwise(CUTS):
        parts = [Part(ids, start, end, SCATTERED), Part(other, 0, 9, [20, 21])]
        found.append(run(decoder, parts)[0])
    expected = logits_of(model, ids)
    assert np.abs(torch.cat(found).numpy() - expected).max() <= 1e-4


@pytest.mark.parametrize("name", SUPPORTED)
def test_step_has_the_tensors_of_the_native_step(name: str) -> None:
    """Names and shapes are the same, so that one table of a family serves both."""
    plan = plan_of(model_of(name).config)
    shapes = sluice_native.Model(plan.to_native(), num_threads=1, weight_type="float32", cache_type="auto").tensors()
    assert {name: tuple(shape) for name, shape in shapes.items()} == all_tensor_shapes(plan)


@pytest.mark.parametrize("name", SUPPORTED)
def test_an_adapter_adds_to_the_modules_of_the_checkpoint(name: str) -> None:
    """A low-rank change of each linear layer but experts' gives the same logits as in the native step."""
    model, ids, adapter = model_of(name), some_tokens(3, 30), adapter_of(model_of(name))
    plan, tensors = plan_of(model.config), FAMILIES[model.config.model_type].tensors
    decoder = decoder_of(name)
    decoder.put_adapter(0, adapter)
    other = native(model)
    other.allocate(12, 16)
    other.put_adapter(0, to_step_modules(adapter, other.tensors(), plan, tensors))
    expected = step(other, [(Sequence(ids, [4, 1]), 30)], adapters=[0])[0]
    found = run(decoder, [Part(ids, 0, 30, SCATTERED, adapter=0), Part(ids, 0, 4, [20])])
    decoder.drop_adapter(0)
    assert np.abs(found[0].numpy() - expected).max() <= 2e-4
    assert np.abs(found[1].numpy() - expected[:4]).max() > 1e-2


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("bitnet", "norms inside of a layer's parts"),
        ("deepseek_v3", "over latents (kv_lora_rank)"),
        ("ministral3", "scaled by position (llama_4_scaling_beta)"),
    ],
)
def test_a_plan_that_the_decoder_does_not_compute_has_a_reason(name: str, reason: str) -> None:
    assert reason in (decoder_unsupported_reason(config_of(name)) or "")
