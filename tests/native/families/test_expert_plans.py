"""Plans and adapters that experts rule out are rejected, by the name of the field or module."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sluice_native

from service.engine.models.checkpoint.adapter_files import Adapter, LowRank
from service.engine.models.plans.adapter_modules import to_step_modules
from service.engine.models.plans.families.table import FAMILIES, plan_of
from service.engine.models.plans.plan import DecoderPlan, ExpertsPlan
from service.generation.errors import AdapterRejected
from tests.models.families import config_of
from tests.models.shapes import small


def mixtral_plan() -> DecoderPlan:
    """Return the plan of a small model with six experts, two of which are chosen."""
    return plan_of(small("mixtral", num_experts=6, num_local_experts=6, num_experts_per_tok=2))


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (
            "model.layers.0.block_sparse_moe.experts.0.w1",
            "adapters can't change experts; supported are k_proj, o_proj, ",
        ),
        ("model.layers.0.block_sparse_moe.gate", "adapters can't change experts"),
        ("model.layers.0.self_attn.w_proj", "the model has no such module"),
        ("model.layers.9.mlp.gate_proj", "the model has no such module"),
    ],
)
def test_adapters_of_experts_are_rejected(module: str, message: str, tmp_path: Path) -> None:
    plan = mixtral_plan()
    low_rank = LowRank(np.zeros((2, 64), np.float32), np.zeros((96, 2), np.float32))
    adapter = Adapter(tmp_path, {module: low_rank}, "digest")
    shapes = sluice_native.Model(plan.to_native()).tensors()
    with pytest.raises(AdapterRejected, match=message):
        to_step_modules(adapter, shapes, plan, FAMILIES["mixtral"].tensors)


def test_an_expert_is_no_module_of_the_native_model() -> None:
    model = sluice_native.Model(mixtral_plan().to_native())
    name = "model.layers.0.mlp.experts.0.gate_proj"
    outputs, inputs = model.tensors()[f"{name}.weight"]
    matrices = np.zeros((2, inputs), np.float32), np.zeros((outputs, 2), np.float32)
    with pytest.raises(ValueError, match="no layer of the model has the module"):
        model.put_adapter(0, [(name, *matrices)])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_experts": 0}, "num_experts must be 1 to 4096"),
        ({"num_chosen": 0}, "num_chosen must be 1 to 256"),
        ({"num_chosen": 7}, "num_chosen must be at most the number of experts in the chosen groups"),
        ({"num_groups": 4}, "num_groups must divide num_experts"),
        (
            {"num_groups": 6, "num_chosen_groups": 5, "adds_two": True},
            "adds_two must be false for groups of one expert",
        ),
        ({"num_groups": 3, "num_chosen_groups": 4}, "num_chosen_groups must be at most num_groups"),
        (
            {"num_groups": 3, "num_chosen_groups": 1, "num_chosen": 3},
            "num_chosen must be at most the number of experts",
        ),
        ({"has_shared_gate": True}, "has_shared_gate must be false without a shared_width"),
        ({"scores": "linear"}, "scores must be one of softmax, sigmoid, chosen_softmax"),
        ({"activation": "xielu"}, "activation must not be xielu for experts"),
        ({"scale": float("nan")}, "scale must be "),
        ({"width": 1 << 21}, "width must be 1 to "),
    ],
)
def test_a_bad_plan_is_rejected_by_the_name_of_its_field(changes: dict[str, Any], message: str) -> None:
    plan = with_experts(mixtral_plan(), **changes)
    with pytest.raises(ValueError, match=rf"layers\[0\]\.feed_forward\.{message}"):
        sluice_native.Model(plan.to_native())


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (
            "minimax",
            {"has_attention_norm": False},
            "attention_residual_multiplier must be 0 without has_attention_norm",
        ),
        ("minimax", {"has_mlp_norm": False}, "mlp_residual_multiplier must be 0 without has_mlp_norm"),
        ("gemma4_text, experts", {"has_mlp_output_norm": False}, "experts must be None for a dense part without"),
        ("gemma4_text, experts", {"mlp_residual_multiplier": 2.0}, "mlp_residual_multiplier must be 0 without"),
    ],
)
def test_parts_that_do_not_fit_each_other_are_rejected(kind: str, changes: dict[str, Any], message: str) -> None:
    plan = plan_of(config_of(kind))
    first, *others = plan.layers
    with pytest.raises(ValueError, match=rf"layers\[0\]\.{message}"):
        sluice_native.Model(replace(plan, layers=(replace(first, **changes), *others)).to_native())


def with_experts(plan: DecoderPlan, **changes: Any) -> DecoderPlan:
    """Return a plan whose first layer's experts have other fields."""
    first, *others = plan.layers
    assert isinstance(first.feed_forward, ExpertsPlan)
    return replace(plan, layers=(replace(first, feed_forward=replace(first.feed_forward, **changes)), *others))
