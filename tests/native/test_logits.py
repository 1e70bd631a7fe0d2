"""The native step computes what transformers computes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import sluice_native
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from tests.native.decoders import CONFIGS, Sequence, native, reference, step

LENGTH = 150
CHUNKS = (100, 1, 1, 17, 31)
BLOCKS = [11, 0, 7, 3, 10, 2, 9, 1, 8, 4]  # of 16 tokens
SETS = sluice_native.instruction_sets()


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("name", CONFIGS)
def test_float32_logits_are_those_of_transformers(name: str, instruction_set: str) -> None:
    model = reference(CONFIGS[name])
    token_ids = some_tokens(model)
    found = native_logits(model, token_ids, "float32", instruction_set)
    assert np.abs(found - logits_of(model, token_ids)).max() <= 1e-4


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("name", CONFIGS)
def test_bfloat16_logits_are_as_near_to_exact_ones_as_those_of_transformers(name: str, instruction_set: str) -> None:
    model = reference(CONFIGS[name], torch.bfloat16)
    token_ids = some_tokens(model)
    found = native_logits(model, token_ids, "bfloat16", instruction_set)
    theirs = logits_of(model, token_ids)
    exact = logits_of(model.float(), token_ids)  # type: ignore[no-untyped-call]
    assert error(found, exact) <= 1.5 * error(theirs, exact)


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("name", CONFIGS)
def test_int8_logits_differ_from_those_of_rounded_weights_by_rounded_activations(
    name: str, instruction_set: str
) -> None:
    """Weights have a scale per row; the error of rounding activations is about as large as that of rounding weights."""
    model = reference(CONFIGS[name])
    token_ids = some_tokens(model)
    found = native_logits(model, token_ids, "int8", instruction_set)
    before = logits_of(model, token_ids)
    exact = logits_of(with_rounded_weights(model, rounded_to_int8, rounded_to_int8), token_ids)
    assert error(found, exact) <= 1.5 * error(exact, before)


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("name", CONFIGS)
def test_int4_logits_are_those_of_rounded_weights(name: str, instruction_set: str) -> None:
    """Weights have a bf16 scale per 32 columns of a row, the head has eight bits, and activations are at least bf16."""
    model = reference(CONFIGS[name])
    token_ids = some_tokens(model)
    found = native_logits(model, token_ids, "int4", instruction_set)
    before = logits_of(model, token_ids)
    exact = logits_of(with_rounded_weights(model, rounded_to_int4, rounded_to_int8), token_ids)
    assert error(found, exact) <= 0.1 * error(exact, before)


def some_tokens(model: PreTrainedModel) -> list[int]:
    tokens: list[int] = torch.randint(0, model.config.vocab_size, (LENGTH,)).tolist()
    return tokens


def native_logits(
    model: PreTrainedModel, token_ids: list[int], weight_type: str, instruction_set: str, cache_type: str = "auto"
) -> NDArray[np.float32]:
    made = native(model, weight_type, cache_type=cache_type, instruction_set=instruction_set, num_threads=2)
    made.allocate(12, 16)
    sequence = Sequence(token_ids, BLOCKS)
    return np.concatenate([step(made, [(sequence, count)])[0] for count in CHUNKS])


def logits_of(model: PreTrainedModel, token_ids: list[int]) -> NDArray[np.float32]:
    with torch.inference_mode():
        logits: NDArray[np.float32] = model(torch.tensor([token_ids])).logits[0].float().numpy()
    return logits


def error(found: NDArray[np.float32], exact: NDArray[np.float32]) -> float:
    """Return the relative size of the difference."""
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def with_rounded_weights(
    model: PreTrainedModel, rounded: Callable[[Tensor], Tensor], rounded_head: Callable[[Tensor], Tensor]
) -> PreTrainedModel:
    """Round the model's matrices in place and return it; an embedding that is not the head becomes bf16."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim != 2:
                continue
            is_embedding = "embed_tokens" in name
            if is_embedding and not model.config.tie_word_embeddings:
                parameter.copy_(parameter.bfloat16().float())
            else:
                parameter.copy_(rounded_head(parameter) if is_embedding or "lm_head" in name else rounded(parameter))
    return model


def rounded_to_int8(weight: Tensor) -> Tensor:
    scale = weight.abs().amax(dim=1, keepdim=True) / 127
    return torch.where(scale == 0, 0, weight / scale).round() * scale


def rounded_to_int4(weight: Tensor) -> Tensor:
    padded = torch.nn.functional.pad(weight, (0, -weight.shape[1] % 32)).view(weight.shape[0], -1, 32)
    farthest = padded.gather(2, padded.abs().argmax(dim=2, keepdim=True))
    scale = (farthest / -8).bfloat16().float()
    levels = torch.where(scale == 0, 0, padded / scale).round().clamp(-8, 7)
    return (levels * scale).view(weight.shape[0], -1)[:, : weight.shape[1]]
