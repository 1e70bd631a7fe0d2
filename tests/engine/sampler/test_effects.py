"""The table of sampling effects covers every parameter, and its two forms change logits alike."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch

from service.engine.core.sequences.sequence import Sequence
from service.engine.device.transfer import to_device
from service.engine.sampler.effects.table import effects
from service.engine.tokens.watermark import Watermark
from service.generation.requests.parameters import DRAW_PARAMETERS, SamplingParams, StopParams
from tests.engine.sampler.mask_constraints import Only
from tests.engine.sampler.random_rows import VOCAB_SIZE
from tests.engine.sampler.sampling import sequence_of

WITHOUT_EFFECT = {*DRAW_PARAMETERS, "seed"}  # the draw reads them
EFFECTIVE = [each.name for each in fields(SamplingParams) if each.name not in WITHOUT_EFFECT]


def changed(name: str) -> SamplingParams:
    """Return parameters of which one is not at its default."""
    default = getattr(SamplingParams(), name)
    others: dict[type, Any] = {dict: {5: 2.0}, bool: True, int: 2, float: 1.5, tuple: (5, 2, 5)}
    return SamplingParams(**{name: others[type(default)]})


def users() -> dict[str, Sequence]:
    """Return a sequence that uses an effect, for each way to use one."""
    kinds = {name: sequence_of(changed(name), prompt=(5, 6), generated=(6, 5)) for name in EFFECTIVE}
    kinds["min_tokens"] = sequence_of(SamplingParams(), stopping=StopParams(min_tokens=3), eos_token_ids=(8,))
    kinds["constraint"] = sequence_of(SamplingParams(), constraint=Only(1, 2))
    return kinds


@pytest.mark.parametrize("name", EFFECTIVE)
def test_a_parameter_not_of_the_draw_is_used_by_one_effect(name: str) -> None:
    """A parameter without an entry in the table would be ignored, and its request would be plain."""
    used = [effect for effect in effects(Watermark()) if effect.is_used_by(sequence_of(changed(name)))]
    assert len(used) == 1


@pytest.mark.parametrize("name", sorted(WITHOUT_EFFECT))
def test_a_draws_own_parameter_uses_no_effect(name: str) -> None:
    given: dict[str, Any] = {name: 0.5}
    sequence = sequence_of(SamplingParams(**given))
    assert not any(effect.is_used_by(sequence) for effect in effects(Watermark()))


@pytest.mark.parametrize("name", users())
def test_both_forms_change_the_used_rows_alike(name: str) -> None:
    """Both forms give the same bits, and the torch form doesn't change rows that don't use the effect."""
    sequence, plain = users()[name], sequence_of(SamplingParams())
    logits = np.random.default_rng(0).standard_normal((3, VOCAB_SIZE)).astype(np.float32)
    by_row, by_rows = logits[1].copy(), torch.from_numpy(logits.copy())
    num_used = 0
    for row_effect, rows_effect in zip(effects(Watermark()), effects(Watermark()), strict=True):
        if row_effect.is_used_by(sequence):
            num_used += 1
            row_effect.change_row(by_row, sequence)
            failures = rows_effect.change_rows(
                by_rows, [plain, sequence, plain], [1], lambda values: to_device(values, by_rows.device)
            )
            assert not failures
    assert num_used == 1
    assert (by_row != logits[1]).any()
    assert np.array_equal(by_rows.numpy(), [logits[0], by_row, logits[2]])
