"""Keys and values in their own type: the loss of precision, and the memory."""

from __future__ import annotations

import numpy as np
import pytest
import sluice_native

from tests.native.decoders import CONFIGS, native, native_plan, reference
from tests.native.test_logits import SETS, error, logits_of, native_logits, some_tokens

# The relative rounding error of the type, and the multiple of it that a model's logits may differ by. On sets with
# products of bfloat16 pairs, queries are rounded as well.
ROUNDING = {"float16": 2**-11, "bfloat16": 2**-8}
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


def test_a_slot_takes_as_many_bytes_as_its_numbers() -> None:
    """A slot has keys and values of 2 kv heads of 48 numbers in 3 layers."""
    numbers = 3 * 2 * 2 * 48
    made = {each: sluice_native.Model(native_plan(CONFIGS["qwen3"]), cache_type=each) for each in ("auto", *ROUNDING)}
    assert {each: sum(model.bytes_per_slot) for each, model in made.items()} == {
        "auto": 4 * numbers,
        "float16": 2 * numbers,
        "bfloat16": 2 * numbers,
    }
    assert sum(native(reference(CONFIGS["qwen3"]), "int8").bytes_per_slot) == 2 * numbers
