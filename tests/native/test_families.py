"""Every family of models: transformers' logits, and the promises of the native step, on a small random model."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from numpy.typing import NDArray

from service.engine.models.checkpoint.adapter_files import Adapter, LowRank
from service.engine.models.plans.adapter_modules import to_step_modules
from service.engine.models.plans.families.table import FAMILIES, plan_of
from service.engine.models.plans.plan import DecoderPlan, ExpertsPlan, PlanUnsupportedError
from tests.models.made import class_of
from tests.models.shapes import VOCAB_SIZE, small
from tests.native.decoders import Sequence, native, step

LENGTH = 90
CHUNKS = (50, 1, 1, 17, 21)
BLOCKS = [11, 0, 7, 3, 10, 2]
# Options of a family that its small model does not have.
VARIANTS: dict[str, dict[str, Any]] = {
    "arcee, biases": {"attention_bias": True, "mlp_bias": True},
    "cohere, head norms": {"use_qk_norm": True, "attention_bias": True, "logit_scale": 1.0},
    "ernie4_5, biases": {"use_bias": True},
    "falcon, one norm": {"new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1},
    "falcon, two norms": {"new_decoder_architecture": True, "num_kv_heads": 2},
    "falcon, all kv heads": {"multi_query": False, "num_kv_heads": 4, "bias": True},
    "falcon, sequential": {"parallel_attn": False},
    "gemma3_text, capped logits": {"final_logit_softcapping": 5.0},
    "gpt_neox, sequential": {"use_parallel_residual": False},
    "granite, multipliers": {"embedding_multiplier": 3.0, "residual_multiplier": 0.22, "logits_scaling": 0.5},
    "granite_swa, layers without rotation": {"layer_rope_theta": [10_000.0, 0, 5e5, 0]},
    "nemotron, biases": {"attention_bias": True, "mlp_bias": True},
    "olmo, limited": {"clip_qkv": 0.5},
    "phi, head norms": {"qk_layernorm": True},
    "seed_oss, biases": {"attention_out_bias": True, "mlp_bias": True},
    "stablelm, parallel": {"use_parallel_residual": True, "use_qkv_bias": True},
    "starcoder2, window": {"sliding_window": 9},
}
NAMES = (*FAMILIES, *VARIANTS)
TYPES = ("float32", "bfloat16", "int8", "int4")


@cache
def model_of(name: str) -> Any:
    """Return a small random transformers model whose logits differ clearly."""
    torch.manual_seed(0)
    config = small(name.partition(",")[0], **VARIANTS.get(name, {}))
    model: Any = class_of(config)(config)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.empty_like(parameter).normal_(std=0.15 if parameter.dim() > 1 else 0.05, generator=generator)
            parameter.copy_(noise if parameter.dim() > 1 else parameter + noise)
    return model.eval()


def some_tokens(seed: int, length: int = LENGTH) -> list[int]:
    tokens: list[int] = np.random.default_rng(seed).integers(0, VOCAB_SIZE, length).tolist()
    return tokens


def logits_of(model: Any, token_ids: list[int]) -> NDArray[np.float32]:
    with torch.inference_mode():
        logits: NDArray[np.float32] = model(torch.tensor([token_ids])).logits[0].float().numpy()
    return logits


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


def is_of_experts(module_name: str, plan: DecoderPlan) -> bool:
    """Return whether a module belongs to experts, a router or a shared expert."""
    number = re.search(r"layers\.(\d+)\.", module_name)
    if number is None or "attn" in module_name:
        return False
    return isinstance(plan.layers[int(number[1])].feed_forward, ExpertsPlan)


@pytest.mark.parametrize("name", NAMES)
def test_an_adapter_adds_to_the_modules_of_the_checkpoint(name: str) -> None:
    """A low-rank change of each linear layer but experts' gives the logits of the changed weights."""
    model, token_ids, generator = model_of(name), some_tokens(3, 30), torch.Generator().manual_seed(1)
    modules, changes = {}, {}
    plan = plan_of(model.config)
    for module_name, module in model.named_modules():
        is_in_layer = "layers." in module_name.replace(".h.", ".layers.")
        if isinstance(module, torch.nn.Linear) and is_in_layer and not is_of_experts(module_name, plan):
            down = torch.randn(3, module.in_features, generator=generator) * 0.1
            up = torch.randn(module.out_features, 3, generator=generator) * 0.1
            modules[module_name] = LowRank(down.numpy(), up.numpy())
            changes[module] = up @ down
    made = native(model)
    made.allocate(12, 16)
    tensors = FAMILIES[model.config.model_type].tensors
    adapter = Adapter(Path("folder"), modules, "digest")
    made.put_adapter(0, to_step_modules(adapter, made.tensors(), plan, tensors))
    found = step(made, [(Sequence(token_ids, BLOCKS), 30)], adapters=[0])[0]
    before = {module: module.weight.detach().clone() for module in changes}
    with torch.no_grad():
        try:
            for module, change in changes.items():
                module.weight += change
            expected = logits_of(model, token_ids)
        finally:
            for module, weight in before.items():
                module.weight.copy_(weight)
    assert np.abs(found - expected).max() <= 2e-4


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
