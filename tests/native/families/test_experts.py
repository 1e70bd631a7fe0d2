"""Experts on the native step: transformers' logits, the same bits in every batch, and only chosen weights are used."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sluice_native
import torch
from safetensors.numpy import load_file, save_file
from transformers import PretrainedConfig

from service.engine.models.checkpoint.adapter_files import Adapter, LowRank
from service.engine.models.checkpoint.checkpoint import Checkpoint, TensorSlice
from service.engine.models.native.backend import load_native
from service.engine.models.plans.adapter_modules import to_step_modules
from service.engine.models.plans.families.table import FAMILIES, plan_of
from service.engine.models.plans.sources import read_tensors
from service.generation.errors import ModelLoadError
from tests.models.shapes import small
from tests.native.decoders import Sequence, native, reference, step

NUM_BLOCKS, BLOCK_SIZE, LENGTH = 64, 16, 90
SETS = sluice_native.instruction_sets()
TYPES = ("float32", "bfloat16", "int8", "int4")
TOLERANCE = 1e-4


def experts(kind: str, count: int, **more: Any) -> PretrainedConfig:
    """Return a small configuration with `count` experts, whose field has several names."""
    names = dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), count)
    config: PretrainedConfig = small(kind, **names, **more)
    return config


# One of each kind of router, and more experts than a group of 16 outputs.
CONFIGS: dict[str, Callable[[], PretrainedConfig]] = {
    "softmax": lambda: experts("qwen3_moe", 20, num_experts_per_tok=5, norm_topk_prob=False),
    "softmax, renormalized": lambda: experts("mixtral", 6, num_experts_per_tok=3),
    "softmax, shared expert with a gate, dense layers": lambda: small(
        "qwen2_moe", mlp_only_layers=[1], norm_topk_prob=True, shared_expert_intermediate_size=88
    ),
    "softmax of the chosen, multipliers": lambda: small(
        "granitemoe", residual_multiplier=0.3, embedding_multiplier=3.0, logits_scaling=2.0
    ),
    "sigmoid, groups, correction, scale": lambda: experts(
        "glm4_moe",
        24,
        n_group=4,
        topk_group=2,
        num_experts_per_tok=5,
        routed_scaling_factor=1.7,
        n_shared_experts=2,
        use_qk_norm=True,
    ),
    "biases, limited SwiGLU, interleaved": lambda: small("gpt_oss", swiglu_limit=0.5),
    "output norms": lambda: small("flex_olmo", norm_topk_prob=True),
}


def random_model(config: PretrainedConfig) -> Any:
    """Return a transformers model whose experts, routers and corrections have random numbers."""
    model: Any = reference(config)
    generator = torch.Generator().manual_seed(1)
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    with torch.no_grad():
        for name, tensor in tensors.items():
            if "expert" in name or ".gate." in name or "router" in name:
                tensor.normal_(std=0.2, generator=generator)
    return model


@cache
def model_of(name: str) -> Any:
    return random_model(CONFIGS[name]())


@cache
def native_of(name: str, weight_type: str, instruction_set: str = "auto") -> sluice_native.Model:
    made = native(model_of(name), weight_type, instruction_set=instruction_set)
    made.allocate(NUM_BLOCKS, BLOCK_SIZE)
    return made


def tokens_of(config: Any, length: int, seed: int = 0) -> list[int]:
    tokens: list[int] = np.random.default_rng(seed).integers(2, config.vocab_size, length).tolist()
    return tokens


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("name", CONFIGS)
def test_float32_logits_are_those_of_transformers(name: str, instruction_set: str) -> None:
    model = model_of(name)
    ids = tokens_of(model.config, LENGTH)
    with torch.inference_mode():
        expected = model(torch.tensor([ids])).logits[0].float().numpy()
    found = step(native_of(name, "float32", instruction_set), [(Sequence(ids, list(range(6))), LENGTH)])[0]
    assert np.abs(found - expected).max() <= TOLERANCE * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize(
    "instruction_set", ["auto", *(pytest.param(each, marks=pytest.mark.slow) for each in SETS[1:])]
)
@pytest.mark.parametrize("weight_type", TYPES)
@pytest.mark.parametrize("name", CONFIGS)
def test_a_row_has_the_same_bits_in_any_company(name: str, weight_type: str, instruction_set: str) -> None:
    """Chunks, decodes, other sequences that choose the same experts, and threads change no bit."""
    model = native_of(name, weight_type, instruction_set)
    config = model_of(name).config
    ids = tokens_of(config, LENGTH)
    others = [Sequence(tokens_of(config, 40, seed), [20 + 4 * seed + i for i in range(3)]) for seed in range(1, 5)]
    chunked = Sequence(ids, list(range(6)))
    parts = [
        step(model, [*((other, count) for other in others), (chunked, size)], num_threads=3)[-1]
        for size, count in ((40, 5), (1, 1), (1, 7), (31, 1), (17, 26))
    ]
    alone = step(model, [(Sequence(ids, list(range(10, 16))), LENGTH)], num_threads=1)[0]
    assert np.concatenate(parts).tobytes() == alone.tobytes()


def test_experts_that_no_row_chooses_are_not_used() -> None:
    """Rows with equal logits choose the experts with the lowest indices; the others' weights are NaN."""
    model = random_model(experts("mixtral", 6, num_experts_per_tok=2))
    with torch.no_grad():
        for layer in model.model.layers:
            layer.mlp.gate.weight.zero_()
            layer.mlp.experts.gate_up_proj[2:] = torch.nan
            layer.mlp.experts.down_proj[2:] = torch.nan
    found = logits_of(native(model), tokens_of(model.config, 20))
    assert np.isfinite(found).all()


def test_equal_choice_scores_take_the_lowest_index_in_the_lowest_group() -> None:
    """Of four equal groups of two experts, the first two are chosen, and of them the first three experts."""
    model = random_model(experts("glm4_moe", 8, n_group=4, topk_group=2, num_experts_per_tok=3))
    with torch.no_grad():
        for layer in model.model.layers[1:]:
            layer.mlp.gate.weight.zero_()
            layer.mlp.gate.e_score_correction_bias.zero_()
            layer.mlp.experts.down_proj[3:] = torch.nan
    assert np.isfinite(logits_of(native(model), tokens_of(model.config, 20))).all()


def test_a_correction_changes_the_choice_and_no_weight() -> None:
    """With a large correction of one expert, all rows choose it with its own score."""
    model = random_model(experts("glm4_moe", 6, num_experts_per_tok=1, norm_topk_prob=False))
    with torch.no_grad():
        for layer in model.model.layers[1:]:
            layer.mlp.gate.e_score_correction_bias.zero_()
            layer.mlp.gate.e_score_correction_bias[4] = 100
    ids = tokens_of(model.config, 30)
    with torch.inference_mode():
        expected = model(torch.tensor([ids])).logits[0].float().numpy()
    assert np.abs(logits_of(native(model), ids) - expected).max() <= TOLERANCE


def test_a_router_logit_that_is_no_number_gives_no_number() -> None:
    model = random_model(experts("mixtral", 6, num_experts_per_tok=2))
    with torch.no_grad():
        model.model.layers[0].mlp.gate.weight[5] = torch.nan
    assert np.isnan(logits_of(native(model), tokens_of(model.config, 5))).all()


def logits_of(model: sluice_native.Model, ids: list[int]) -> Any:
    model.allocate(NUM_BLOCKS, BLOCK_SIZE)
    return step(model, [(Sequence(ids, list(range(6))), len(ids))])[0]


SAME_LAYOUT = (
    "gpt_oss",
    "granitemoe_swa",
    "gemma4_text",
)  # their alternatives are blocks, and tensors of other versions


@pytest.mark.parametrize("kind", [kind for kind, family in FAMILIES.items() if family.alternatives])
def test_fused_and_separate_tensors_of_a_checkpoint_are_read_alike(kind: str, tmp_path: Path) -> None:
    """The names of transformers' parameters and of its stored tensors differ; both are used in checkpoints."""
    config = small(kind)
    model = random_model(config)
    model.save_pretrained(tmp_path)
    plan, family = plan_of(config), FAMILIES[kind]
    shapes = sluice_native.Model(plan.to_native()).tensors()
    checkpoint, state = Checkpoint(tmp_path), {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    layouts = family.tensors_in(checkpoint.__contains__, plan), family.tensors_in(state.__contains__, plan)
    assert kind in SAME_LAYOUT or layouts[0] is not layouts[1]

    def take(name: str, shape: tuple[int, ...], part: TensorSlice | None) -> Any:
        assert state[name].shape == shape
        return state[name] if part is None else state[name][part.start : part.end]

    stored = dict(read_tensors(shapes, plan, layouts[0], checkpoint.take))
    fused = dict(read_tensors(shapes, plan, layouts[1], take))
    assert stored.keys() == fused.keys() == shapes.keys()
    for name, tensor in stored.items():
        np.testing.assert_array_equal(tensor, fused[name], err_msg=name)


@pytest.mark.parametrize(
    ("kind", "name"), [("glm4_moe", "model.layers.4.eh_proj.weight"), ("exaone_moe", "mtp.layers.0.norm.weight")]
)
def test_parts_that_predict_further_tokens_are_not_read(kind: str, name: str, tmp_path: Path) -> None:
    """A checkpoint may have them after its last layer; elsewhere an unknown tensor is an error."""
    config = small(kind)
    random_model(config).save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    stored = load_file(file)
    save_file(stored | {name: np.zeros(3, np.float32)}, file)
    assert load_native(config, Checkpoint(tmp_path), "float32", 1).bytes_per_block(BLOCK_SIZE) > 0
    save_file(stored | {"model.layers.1.eh_proj.weight": np.zeros(3, np.float32)}, file)
    with pytest.raises(ModelLoadError, match=r"unexpected tensor model\.layers\.1\.eh_proj\.weight"):
        load_native(config, Checkpoint(tmp_path), "float32", 1)


def test_adapters_change_attention_next_to_experts(tmp_path: Path) -> None:
    """The logits are those of the merged weights, for a decode as well as for a prompt."""
    model = random_model(experts("mixtral", 6))
    plain = native(model)
    plain.allocate(NUM_BLOCKS, BLOCK_SIZE)
    numbers = np.random.default_rng(0)
    modules = {}
    with torch.no_grad():
        for module in ("q_proj", "v_proj", "o_proj"):
            weight = model.get_submodule(f"model.layers.2.self_attn.{module}").weight
            down, up = (
                numbers.normal(0, 0.2, size).astype(np.float32) for size in ((3, weight.shape[1]), (weight.shape[0], 3))
            )
            weight += torch.from_numpy(up @ down)
            modules[f"model.layers.2.self_attn.{module}"] = LowRank(down, up)
    plan, adapter = plan_of(model.config), Adapter(tmp_path, modules, "digest")
    plain.put_adapter(0, to_step_modules(adapter, plain.tensors(), plan, FAMILIES["mixtral"].tensors))
    ids = tokens_of(model.config, 30)
    sequence = Sequence(ids, [40, 41])
    found = [step(plain, [(sequence, count)], adapters=[0])[0] for count in (29, 1)]
    merged = native(model)
    assert np.abs(np.concatenate(found) - logits_of(merged, ids)).max() <= TOLERANCE
