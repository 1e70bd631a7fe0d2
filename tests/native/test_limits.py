"""Measurements of a step's lower bounds: reading the weights, and products in registers."""

from __future__ import annotations

import math

import pytest
import sluice_native

from tests.native.decoders import CONFIGS, native, reference


@pytest.mark.parametrize("instruction_set", sluice_native.instruction_sets())
@pytest.mark.parametrize("weight_type", ["float32", "bfloat16", "int8", "int4"])
def test_both_limits_are_known_for_every_type_set_and_number_of_threads(weight_type: str, instruction_set: str) -> None:
    model = native(reference(CONFIGS["qwen3"]), weight_type, instruction_set=instruction_set)
    for threads in (0, 1, 3):
        assert 0 < model.read_weights(threads) < math.inf
        assert 0 < model.multiply_rate(threads) < math.inf
