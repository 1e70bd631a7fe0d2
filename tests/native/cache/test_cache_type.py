"""Keys and values in their own type: the loss of precision, and the memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sluice_native
import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

from tests.models.families import model_of
from tests.native.decoders import CONFIGS, Sequence, native, native_plan, reference, step
from tests.native.test_logits import SETS, error, logits_of, native_logits, some_tokens

# The relative rounding error of the type, and the multiple of it that a model's logits may differ by. On sets with
# products of bfloat16 pairs, queries are rounded as well.
ROUNDING = {"float16": 2**-11, "bfloat16": 2**-8, "int8": 2**-6}
TIMES = 4


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("cache_type", ROUNDING)
@pytest.mark.parametrize("name", ["qwen3", "mistral, window", "llama, one kv head of 20"])
def test_logits_are_off_by_what_rounding_keys_and_values_costs(
    name: str, cache_type: str, instruction_set: str
) -> None:
    model = reference(CONFIGS[name])
    token_ids = some_tokens(model)
    found = native_logits(model, token_ids, "float32", instruction_set, cache_type)
    assert 0 < error(found, logits_of(model, token_ids)) <= TIMES * ROUNDING[cache_type]


@pytest.mark.parametrize("instruction_set", SETS)
def test_all_sets_round_to_float16_alike(instruction_set: str) -> None:
    """Sets with and without the instruction round alike, including denormal numbers; only the order of sums differs."""
    model = reference(CONFIGS["llama"])
    for name, parameter in model.named_parameters():
        if name.endswith(("k_proj.weight", "v_proj.weight")):
            parameter.data *= 1e-5
    token_ids = some_tokens(model)
    best, found = (native_logits(model, token_ids, "float32", each, "float16") for each in (SETS[0], instruction_set))
    assert error(found, best) <= 1e-5


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("scale", [1e5, np.nan])
def test_float16_saturates_and_keeps_nan(scale: float, instruction_set: str) -> None:
    model = reference(CONFIGS["llama"])
    for name, parameter in model.named_parameters():
        if name.endswith("v_proj.weight"):
            parameter.data *= scale
    found = native_logits(model, some_tokens(model), "float32", instruction_set, "float16")
    assert np.isnan(found).all() if np.isnan(scale) else np.isfinite(found).all()


def rounded(numbers: torch.Tensor, size: int) -> torch.Tensor:
    """Return numbers rounded to bytes with a scale for each `size` of the last dimension, and for the rest."""
    parts = []
    for part in torch.split(numbers, size, dim=-1):
        scales = (part.abs().amax(-1, keepdim=True) / 127).clamp_min(1e-30)
        parts.append((part / scales).round() * scales)
    return torch.cat(parts, -1)


def attend_to_bytes(
    module: Any, query: Any, key: Any, value: Any, mask: Any, *, scaling: float, **_: Any
) -> tuple[torch.Tensor, None]:
    """Compute attention as a cache in int8 does.

    Queries and keys have a scale for each 32 numbers, a head's value has one, and weights, times the scales of the
    values, have one for 64 keys.
    """
    group = module.num_key_value_groups
    keys, values = (each.repeat_interleave(group, 1) for each in (rounded(key, 32), rounded(value, value.shape[-1])))
    length = keys.shape[2]
    allowed = torch.ones(length, length, dtype=torch.bool).tril() if mask is None else mask
    scores = (rounded(query, 32) @ keys.transpose(2, 3) * scaling).masked_fill(~allowed, -torch.inf)
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    scales = (value.abs().amax(-1) / 127).clamp_min(1e-30).repeat_interleave(group, 1)[:, :, None]
    parts = []
    for part in (weights * scales).split(64, dim=-1):
        most = (part.amax(-1, keepdim=True) / 255).clamp_min(1e-35)
        parts.append((part / most).round() * most)
    attended = torch.cat(parts, -1) @ (values / scales.transpose(2, 3)) / weights.sum(-1, keepdim=True)
    return attended.transpose(1, 2).contiguous(), None


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("name", ["qwen3", "mistral, window", "llama, one kv head of 20", "llama, wide"])
def test_int8_rounds_as_described_and_nothing_else(name: str, instruction_set: str) -> None:
    """The error left over is that of the few numbers that lie between two bytes."""
    model = reference(CONFIGS[name])
    token_ids = some_tokens(model)
    exact = logits_of(model, token_ids)
    AttentionInterface.register("bytes", attend_to_bytes)
    AttentionMaskInterface.register("bytes", sdpa_mask)
    model.set_attn_implementation("bytes")
    expected = logits_of(model, token_ids)
    found = native_logits(model, token_ids, "float32", instruction_set, "int8")
    assert error(found, expected) <= error(expected, exact) / 4


@pytest.mark.parametrize("instruction_set", SETS)
def test_a_value_that_is_not_finite_breaks_its_own_text_only(instruction_set: str) -> None:
    model = reference(CONFIGS["llama"])
    token_ids = some_tokens(model)
    model.get_parameter("model.embed_tokens.weight").data[token_ids[20]] = np.nan
    made = native(model, "float32", cache_type="int8", instruction_set=instruction_set)
    made.allocate(20, 16)
    other = [token for token in token_ids if token != token_ids[20]][:40]
    expected = step(made, [(Sequence(other, [0, 1, 2]), 40)])[0]
    broken = Sequence(token_ids, list(range(3, 13)))
    found = step(made, [(broken, 40), (Sequence(other, [13, 14, 15]), 40)])
    assert found[1].tobytes() == expected.tobytes()
    assert np.isnan(found[0][20:]).all()
    again = step(made, [(Sequence(other, [3, 4, 5]), 40)])[0]  # in the blocks of the broken text
    assert again.tobytes() == expected.tobytes()


def test_latents_are_no_bytes() -> None:
    with pytest.raises(ValueError, match=r"cache_type must not be int8 for a layer with latents"):
        native(model_of("deepseek_v3, groups"), "float32", cache_type="int8")


def test_a_slot_takes_as_many_bytes_as_its_numbers() -> None:
    """A slot has keys and values of 2 kv heads of 48 numbers in 3 layers.

    The bytes of keys are whole runs of 32, and a scale for each; those of values have one scale.
    """
    numbers = 3 * 2 * 2 * 48
    made = {each: sluice_native.Model(native_plan(CONFIGS["qwen3"]), cache_type=each) for each in ("auto", *ROUNDING)}
    assert {each: sum(model.bytes_per_slot) for each, model in made.items()} == {
        "auto": 4 * numbers,
        "float16": 2 * numbers,
        "bfloat16": 2 * numbers,
        "int8": 3 * 2 * (64 + 2 * 4 + 48 + 4),
    }
    assert sum(native(reference(CONFIGS["qwen3"]), "int8").bytes_per_slot) == 2 * numbers
