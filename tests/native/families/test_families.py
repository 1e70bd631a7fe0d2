"""Every family of models: transformers' logits, and the promises of the native step, on a small random model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers

from service.engine.models.plans.adapter_modules import to_step_modules
from service.engine.models.plans.families.table import FAMILIES, plan_of
from service.engine.models.plans.plan import PlanUnsupportedError
from tests.models.families import LENGTH, NAMES, adapter_of, logits_of, model_of, some_tokens
from tests.models.shapes import small
from tests.native.decoders import Sequence, native, step

CHUNKS = (50, 1, 1, 17, 21)
BLOCKS = [11, 0, 7, 3, 10, 2]
TYPES = ("float32", "bfloat16", "int8", "int4")


@pytest.mark.parametrize("name", NAMES)
def test_logits_are_those_of_transformers(name: str) -> None:
    """The logits of float32 weights equal transformers', for a prompt in chunks that are batched with decodes."""
    model, token_ids = model_of(name), some_tokens(0)
    made = native(model, num_threads=2)
    made.allocate(12, 16)
    sequence = Sequence(token_ids, BLOCKS)
    found = np.concatenate([step(made, [(sequence, count)])[0] for count in CHUNKS])
    expected = logits_of(model, token_ids)
    assert np.abs(found - expected).max() <= 1e-4
    assert (found.argmax(-1) == expected.argmax(-1)).all()


@pytest.mark.parametrize("weight_type", TYPES)
@pytest.mark.parametrize("name", NAMES)
def test_a_row_has_the_same_bits_in_any_company(name: str, weight_type: str) -> None:
    """Chunks, other sequences, blocks and threads change no bit of a sequence's logits."""
    made = native(model_of(name), weight_type, num_threads=2)
    made.allocate(18, 16)
    token_ids = some_tokens(1)
    alone = step(made, [(Sequence(token_ids, [0, 1, 2, 3, 4, 5]), LENGTH)], num_threads=1)[0]
    mine, other = Sequence(token_ids, [9, 17, 6, 8, 7, 10]), Sequence(some_tokens(2), [11, 12, 13, 14, 15, 16])
    together = [step(made, [(other, 18), (mine, count)], num_threads=2)[1] for count in CHUNKS]
    assert np.isfinite(alone).all()
    assert np.concatenate(together).tobytes() == alone.tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_an_adapter_adds_to_the_modules_of_the_checkpoint(name: str) -> None:
    """A low-rank change of each linear layer but experts' gives the logits of the changed weights."""
    model, token_ids = model_of(name), some_tokens(3, 30)
    made = native(model)
    made.allocate(12, 16)
    adapter, tensors = adapter_of(model), FAMILIES[model.config.model_type].tensors
    made.put_adapter(0, to_step_modules(adapter, made.tensors(), plan_of(model.config), tensors))
    found = step(made, [(Sequence(token_ids, BLOCKS), 30)], adapters=[0])[0]
    changed = {model.get_submodule(module): low_rank for module, low_rank in adapter.modules.items()}
    before = {module: module.weight.detach().clone() for module in changed}
    with torch.no_grad():
        try:
            for module, low_rank in changed.items():
                module.weight += torch.from_numpy(low_rank.up @ low_rank.down)
            expected = logits_of(model, token_ids)
        finally:
            for module, weight in before.items():
                module.weight.copy_(weight)
    assert np.abs(found - expected).max() <= 2e-4


@pytest.mark.parametrize("name", FAMILIES)
def test_rows_with_an_adapter_have_the_same_bits_in_any_company(name: str) -> None:
    """Chunks, and rows without the adapter in the batch, change no bit; a row without it has the base's bits."""
    model = model_of(name)
    made = native(model, "bfloat16", num_threads=2)
    made.allocate(18, 16)
    base, token_ids, others = some_tokens(2), some_tokens(1), [11, 12, 13, 14, 15, 16]
    plain = step(made, [(Sequence(base, others), 18)], num_threads=1)[0]
    tensors = FAMILIES[model.config.model_type].tensors
    made.put_adapter(0, to_step_modules(adapter_of(model), made.tensors(), plan_of(model.config), tensors))
    alone = step(made, [(Sequence(token_ids, [0, 1, 2, 3, 4, 5]), LENGTH)], num_threads=1, adapters=[0])[0]
    mine = Sequence(token_ids, [9, 17, 6, 8, 7, 10])
    steps = [step(made, [(Sequence(base, others), 18), (mine, count)], adapters=[-1, 0]) for count in CHUNKS]
    assert np.concatenate([found for _, found in steps]).tobytes() == alone.tobytes()
    assert {unchanged.tobytes() for unchanged, _ in steps} == {plain.tobytes()}


@pytest.mark.parametrize("name", ["apertus", "arcee", "gemma2", "gpt_neox", "olmo, limited", "phi"])
def test_numbers_that_are_not_finite_are_not_hidden(name: str) -> None:
    """A NaN in a weight reaches the logits through every activation, limit and soft cap."""
    model = model_of(name)
    for part in ("self_attn.v_proj", "mlp.up_proj", "norm"):
        made = native(model)
        made.allocate(12, 16)
        tensor = f"model.{part}.weight" if part == "norm" else f"model.layers.0.{part}.weight"
        made.load(tensor, np.full(made.tensors()[tensor], np.nan, np.float32))
        assert np.isnan(step(made, [(Sequence(some_tokens(4, 5), BLOCKS), 5)])[0]).all()


UNSUPPORTED: dict[str, tuple[str, dict[str, Any], str]] = {
    "deepseek_v2": ("deepseek_v2", {"topk_method": "noaux_tc"}, "topk_method is 'noaux_tc'"),
    "deepseek_v3": ("deepseek_v3", {"rope_interleave": False}, "rope_interleave is False"),
    "falcon": ("falcon", {"alibi": True}, "alibi is True"),
    "gemma": ("gemma", {"use_bidirectional_attention": True}, "use_bidirectional_attention is True"),
    "llama": ("llama", {"hidden_act": "tanh"}, "hidden_act is 'tanh'"),
    "stablelm": ("stablelm", {"qk_layernorm": True}, "qk_layernorm is True"),
    "rotation": (
        "qwen3",
        {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}},
        "rope_parameters.partial_rotary_factor is 0.5",
    ),
}


@pytest.mark.parametrize("case", UNSUPPORTED)
def test_a_variant_that_no_plan_describes_is_rejected_by_its_field(case: str) -> None:
    kind, options, text = UNSUPPORTED[case]
    with pytest.raises(PlanUnsupportedError, match=text):
        plan_of(small(kind, **options))


def test_every_type_of_a_family_is_one_of_transformers() -> None:
    """The table has no misspelled type."""
    assert set(FAMILIES) <= set(transformers.CONFIG_MAPPING)
