"""Native sampling chooses the same tokens as the engine's sampler."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sluice_native
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.engine.sampler import draw
from service.engine.sampler.truncation import truncate
from service.generation.requests.parameters import DRAW_PARAMETERS, SamplingParams, Trait, values_with

RULES = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 0.3, 1.0, 2.0]),
    top_k=st.sampled_from([None, 1, 5, 40, 700, 5_000]),
    top_p=st.sampled_from([1.0, 0.99, 0.9, 0.3, 0.0]),
    min_p=st.sampled_from([0.0, 0.01, 0.3, 1.0]),
    typical_p=st.sampled_from([1.0, 1.0, 0.9, 0.2]),
)


def sample(logits: NDArray[np.float32], rules: list[SamplingParams], uniforms: list[float], **more: Any) -> list[int]:
    params = [sluice_native.DrawParams(**values_with(Trait.DRAW, each)) for each in rules]
    return sluice_native.sample(logits, range(len(logits)), params, uniforms, **more)


def expected(logits: NDArray[np.float32], rule: SamplingParams, uniform: float) -> int:
    """Return the token of the engine's sampler for a row with these parameters only."""
    row = torch.from_numpy(logits.copy())[None]
    largest, token = row.max(dim=-1)
    if rule.temperature == 0:
        return int(token)
    row = (row - largest[:, None]) / rule.temperature
    truncate(row, [rule])
    return int(draw.draw(row.softmax(dim=-1), torch.tensor([uniform], dtype=torch.float64)))


@pytest.mark.parametrize("instruction_set", sluice_native.instruction_sets())
@settings(max_examples=40)
@given(rules=st.lists(RULES, min_size=1, max_size=5), seed=st.integers(0, 99), size=st.sampled_from([1, 17, 3_000]))
def test_the_same_uniform_gives_the_same_token(
    instruction_set: str, rules: list[SamplingParams], seed: int, size: int
) -> None:
    random = np.random.default_rng(seed)
    logits = (3 * random.standard_normal((len(rules), size))).astype(np.float32)
    uniforms = random.random(len(rules)).tolist()
    found = sample(logits, rules, uniforms, num_threads=2, instruction_set=instruction_set)
    assert found == [expected(*each) for each in zip(logits, rules, uniforms, strict=True)]


@pytest.mark.parametrize("instruction_set", sluice_native.instruction_sets())
@pytest.mark.parametrize("top_k", [None, 200, 3_000])
@pytest.mark.parametrize("top_p", [1.0, 0.9, 0.3])
def test_a_border_is_found_among_many_values(instruction_set: str, top_k: int | None, top_p: float) -> None:
    """In a large vocabulary, the values near the border are collected before the search continues among them."""
    random = np.random.default_rng(7)
    logits = random.standard_normal((4, 40_000)).astype(np.float32)
    logits[2:] *= 4
    rule = SamplingParams(temperature=1, top_k=top_k, top_p=top_p)
    uniforms = [0.1, 0.999, 0.5, 0.999]
    found = sample(logits, [rule] * 4, uniforms, instruction_set=instruction_set)
    assert found == [expected(row, rule, uniform) for row, uniform in zip(logits, uniforms, strict=True)]


@pytest.mark.parametrize("uniform", [0.0, 0.5, 1 - 2**-53])
def test_a_dropped_token_is_never_chosen(uniform: float) -> None:
    logits = np.full((1, 1_000), -np.inf, dtype=np.float32)
    logits[0, [3, 500]] = 1.0, 0.9
    assert sample(logits, [SamplingParams(temperature=1, top_k=1)], [uniform]) == [3]
    assert sample(logits, [SamplingParams(temperature=1)], [uniform])[0] in {3, 500}


@pytest.mark.parametrize("instruction_set", sluice_native.instruction_sets())
@pytest.mark.parametrize("size", [1, 16, 255, 256, 257, 512, 600])
def test_the_largest_is_found_at_any_index(instruction_set: str, size: int) -> None:
    """The first of equal logits is chosen; a row with a NaN has no token."""
    indices = sorted({index for index in (0, 1, 17, 254, 255, 256, 257, 511, 512, size - 1) if index < size})
    logits = np.full((2 * len(indices), size), -5, dtype=np.float32)
    for row, index in enumerate(indices):
        logits[[row, len(indices) + row], index] = -1
        logits[row, -1] = -1
        logits[len(indices) + row, size // 2] = np.nan
    found = sample(
        logits, [SamplingParams(temperature=0)] * len(logits), [0.5] * len(logits), instruction_set=instruction_set
    )
    assert found == [*indices, *[-1] * len(indices)]


def test_a_row_without_a_finite_maximum_has_no_token() -> None:
    logits = np.zeros((4, 40), dtype=np.float32)
    logits[0, 7], logits[1, 7], logits[2] = np.nan, np.inf, -np.inf
    logits[3, :20] = -np.inf
    assert sample(logits, [SamplingParams(temperature=0)] * 4, [0.5] * 4) == [-1, -1, -1, 20]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"params": []}, "params must have one element per row"),
        ({"uniforms": [1.0]}, r"uniforms\[0\]"),
        ({"uniforms": [0.1, 0.2]}, "uniforms must have one element per row"),
        ({"rows": [2]}, r"rows\[0\] must be at least 0 and below 2"),
        ({"rows": [-1]}, r"rows\[0\]"),
        ({"num_threads": 0}, "num_threads"),
        ({"instruction_set": "other"}, "instruction_set"),
    ],
)
def test_a_bad_argument_is_refused_by_its_name(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"rows": [1], "params": [sluice_native.DrawParams()], "uniforms": [0.5]}
    with pytest.raises(ValueError, match=message):
        sluice_native.sample(np.zeros((2, 9), dtype=np.float32), **arguments | change)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"temperature": -1}, "temperature must be at least 0"),
        ({"top_k": -1}, "top_k must be at least 0"),
        ({"top_k": 2**70}, "top_k must be a number of the field's type"),
        ({"top_p": 1.5}, "top_p must be 0 to 1"),
        ({"min_p": np.nan}, "min_p must be 0 to 1"),
        ({"typical_p": -0.1}, "typical_p must be 0 to 1"),
    ],
)
def test_a_draw_parameter_out_of_its_range_is_rejected_by_its_name(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sluice_native.DrawParams(**given)


def test_draw_parameters_are_those_of_the_table() -> None:
    """The struct's fields are exactly the parameters with the trait, with the defaults of the table."""
    off = SamplingParams()
    native = sluice_native.DrawParams()
    for name in DRAW_PARAMETERS:
        assert getattr(native, name) == (getattr(off, name) or 0)
    assert set(DRAW_PARAMETERS) == {name for name in dir(native) if not name.startswith("_")}
    with pytest.raises(TypeError, match="the fields of DrawParams are temperature, "):
        sluice_native.DrawParams(frequency_penalty=1)


def test_uniforms_are_those_of_the_torch_sampler() -> None:
    random = np.random.default_rng(3)
    seeds = [0, 1, 2**63 - 1, 2**64 - 1, *(int(each) for each in random.integers(2**63, size=50))]
    indices = [int(each) for each in random.integers(10**6, size=len(seeds))]
    assert sluice_native.uniforms(seeds, indices) == draw.uniforms(seeds, indices).tolist()
