"""Small transformers models with random weights, and native models with the same weights."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import sluice_native
import torch
from numpy.typing import NDArray
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    MistralConfig,
    PretrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
    SmolLM3Config,
)
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from service.engine.models.checkpoint.checkpoint import TensorSlice
from service.engine.models.plans.families.table import FAMILIES, plan_of
from service.engine.models.plans.family import head_dim_of
from service.engine.models.plans.plan import DecoderPlan, RotaryPlan
from service.engine.models.plans.sources import read_tensors

NUM_STATES = 20  # slots of sequences' states in models with recurrent layers
SMALL: dict[str, Any] = {
    "vocab_size": 203,
    "hidden_size": 72,
    "intermediate_size": 104,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.2,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


def rope(kind: str = "default", **more: Any) -> dict[str, Any]:
    return {"rope_type": kind, "rope_theta": 10_000.0, **more}


CONFIGS: dict[str, PretrainedConfig] = {
    "llama": LlamaConfig(**SMALL, rope_parameters=rope()),
    "llama, all biases": LlamaConfig(**SMALL, rope_parameters=rope(), attention_bias=True, mlp_bias=True),
    "llama, llama3 rope": LlamaConfig(
        **SMALL,
        rope_parameters=rope(
            "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64
        ),
    ),
    "llama, yarn": LlamaConfig(**SMALL, rope_parameters=rope("yarn", factor=4.0, original_max_position_embeddings=128)),
    "llama, one kv head of 20": LlamaConfig(**SMALL | {"num_key_value_heads": 1}, head_dim=20, rope_parameters=rope()),
    "llama, 12 heads": LlamaConfig(
        **SMALL | {"num_attention_heads": 12, "num_key_value_heads": 12, "hidden_size": 144}, rope_parameters=rope()
    ),
    "llama, wide": LlamaConfig(  # more columns than any tile has, and no multiple of a tile's size
        **SMALL | {"hidden_size": 712, "intermediate_size": 1_064, "num_hidden_layers": 2, "initializer_range": 0.05},
        head_dim=40,
        rope_parameters=rope(),
    ),
    "mistral": MistralConfig(**SMALL, rope_parameters=rope(), sliding_window=None),
    "mistral, window": MistralConfig(**SMALL, rope_parameters=rope(), sliding_window=21),
    "qwen2": Qwen2Config(**SMALL, rope_parameters=rope(), tie_word_embeddings=True),
    "qwen2, window": Qwen2Config(
        **SMALL, rope_parameters=rope(), use_sliding_window=True, sliding_window=70, max_window_layers=1
    ),
    "qwen3": Qwen3Config(**SMALL | {"hidden_size": 64}, head_dim=48, rope_parameters=rope(), tie_word_embeddings=True),
    "smollm3": SmolLM3Config(**SMALL, rope_parameters=rope(), no_rope_layers=[1, 0, 1], use_sliding_window=False),
}


def reference(config: PretrainedConfig, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """Return a transformers model of a configuration with random weights, including norms and biases."""
    torch.manual_seed(0)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
        config, dtype=torch.float32, attn_implementation="eager"
    )
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1:
            torch.nn.init.normal_(parameter, 1.0 if "norm" in name else 0.0, 0.2)
    model.eval()  # type: ignore[no-untyped-call]
    rotary: Any = getattr(model.model, "rotary_emb", None)
    frequencies = getattr(rotary, "inv_freq", None)
    model.to(dtype)  # type: ignore[arg-type]
    if frequencies is not None:
        rotary.inv_freq = frequencies  # a checkpoint's loader doesn't round them
    return model


def native(model: PreTrainedModel, weight_type: str = "float32", **options: Any) -> sluice_native.Model:
    """Return a native model with the same weights."""
    plan = exact_plan(model.config)
    made = sluice_native.Model(plan.to_native(), weight_type=weight_type, **options)
    stored = model.state_dict()
    tensors = FAMILIES[model.config.model_type].tensors_in(stored.__contains__, plan)
    if model.config.model_type == "gpt_neox":
        stored["embed_out.weight"] = stored["lm_head.weight"]  # the name in files

    def take(name: str, shape: tuple[int, ...], part: TensorSlice | None) -> NDArray[Any]:
        tensor = stored[name].detach().contiguous()
        assert tuple(tensor.shape) == shape
        if part is not None:
            tensor = tensor[part.start : part.end]
        values: NDArray[Any] = tensor.view(torch.uint16).numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()
        return values

    for name, array in read_tensors(made.tensors(), plan, tensors, take):
        made.load(name, array)
    if made.bytes_per_state:
        made.allocate_states(NUM_STATES)
    return made


def exact_plan(config: Any) -> DecoderPlan:
    """Return the plan of a configuration, with transformers' own frequencies if all layers share one table.

    Those of the product differ in their last bits.
    """
    plan = plan_of(config)
    rope = getattr(config, "rope_parameters", {})
    if len(plan.rotary) != 1 or rope.get("partial_rotary_factor", 1.0) != 1 or "alpha" in rope:
        return plan
    head_dim = head_dim_of(config)
    kind, factor = rope.get("rope_type", "default"), 1.0
    if kind == "default":
        exponents = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
        frequencies = 1.0 / rope["rope_theta"] ** exponents
    else:
        frequencies, factor = ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"))
    return replace(plan, rotary=(RotaryPlan(inverse_frequencies=tuple(frequencies.tolist()), factor=factor),))


def native_plan(config: Any) -> dict[str, Any]:
    """Return the native model's plan for a transformers configuration."""
    return plan_of(config).to_native()


class Sequence:
    """One sequence's tokens, block table and slot of a recurrent state."""

    def __init__(self, token_ids: list[int], blocks: list[int]) -> None:
        self.token_ids = token_ids
        self.blocks = blocks
        self.num_computed = 0
        self.state = blocks[0]


def step(
    model: sluice_native.Model,
    work: list[tuple[Sequence, int]],
    *,
    num_threads: int = 0,
    adapters: list[int] | None = None,
) -> list[NDArray[np.float32]]:
    """Compute the next `count` tokens of each sequence, with its adapter; return their logits [count, vocabulary]."""
    token_ids: list[int] = []
    positions: list[int] = []
    offsets, lengths = [0], []
    for sequence, count in work:
        begin, end = sequence.num_computed, sequence.num_computed + count
        token_ids += sequence.token_ids[begin:end]
        positions += range(begin, end)
        offsets.append(offsets[-1] + count)
        lengths.append(end)
        sequence.num_computed = end
    width = max(len(sequence.blocks) for sequence, _ in work)
    tables = [sequence.blocks + [-1] * (width - len(sequence.blocks)) for sequence, _ in work]
    logits = model.step(
        ints(token_ids),
        ints(positions),
        ints(offsets),
        ints(lengths),
        ints(tables),
        np.arange(len(token_ids), dtype=np.int32),
        num_threads=num_threads,
        adapters=None if adapters is None else ints(adapters),
        states=ints([[sequence.state, sequence.state, 0, -1] for sequence, _ in work])
        if model.bytes_per_state
        else None,
    )
    return [logits[begin:end] for begin, end in pairwise(offsets)]


def ints(values: Any) -> NDArray[np.int32]:
    return np.array(values, dtype=np.int32)
