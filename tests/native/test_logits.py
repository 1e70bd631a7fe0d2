"""The native step computes what transformers computes."""

from __future__ import annotations

import numpy as np
import pytest
import sluice_native
import torch

from tests.native.decoders import CONFIGS, Sequence, native, reference, step

LENGTH, BLOCK_SIZE = 150, 16
SETS = sluice_native.instruction_sets()


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("name", CONFIGS)
def test_float32_logits_are_those_of_transformers(name: str, instruction_set: str) -> None:
    model = reference(CONFIGS[name])
    token_ids = torch.randint(0, model.config.vocab_size, (LENGTH,)).tolist()
    with torch.inference_mode():
        expected = model(torch.tensor([token_ids])).logits[0].numpy()
    made = native(model, instruction_set=instruction_set, num_threads=2)
    made.allocate(12, BLOCK_SIZE)
    sequence = Sequence(token_ids, [11, 0, 7, 3, 10, 2, 9, 1, 8, 4])
    found = np.concatenate([step(made, [(sequence, count)])[0] for count in (100, 1, 1, 17, 31)])
    assert np.abs(found - expected).max() <= 1e-4
