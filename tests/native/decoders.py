"""Small transformers models with random weights, and native models with the same weights."""

from __future__ import annotations

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
    rotary: Any = model.model.rotary_emb
    frequencies = rotary.inv_freq
    model.to(dtype)  # type: ignore[arg-type]
    rotary.inv_freq = frequencies  # a checkpoint's loader doesn't round them
    return model


def native(model: PreTrainedModel, weight_type: str = "float32", **options: Any) -> sluice_native.Model:
    """Return a native model with the same weights."""
    made = sluice_native.Model(**shape_of(model.config), weight_type=weight_type, **options)
    for name, tensor in model.state_dict().items():
        if name != "lm_head.weight" or not model.config.tie_word_embeddings:
            made.load(name, tensor.detach().contiguous())
    return made


def shape_of(config: Any) -> dict[str, Any]:
    """Return the native model's arguments for a transformers configuration."""
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    kind, factor = config.rope_parameters.get("rope_type", "default"), 1.0
    if kind == "default":
        exponents = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
        frequencies = 1.0 / config.rope_parameters["rope_theta"] ** exponents
    else:
        frequencies, factor = ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"))
    num_layers = config.num_hidden_layers
    window = getattr(config, "sliding_window", None) or 0
    kinds = getattr(config, "layer_types", None) or ["sliding_attention" if window else "full_attention"] * num_layers
    has_bias = bool(getattr(config, "attention_bias", False))
    return {
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_layers": num_layers,
        "num_heads": config.num_attention_heads,
        "num_kv_heads": config.num_key_value_heads,
        "head_dim": head_dim,
        "norm_epsilon": config.rms_norm_eps,
        "inverse_frequencies": frequencies.tolist(),
        "rope_factor": factor,
        "has_qkv_bias": has_bias or config.model_type == "qwen2",
        "has_output_bias": has_bias,
        "has_mlp_bias": bool(getattr(config, "mlp_bias", False)),
        "has_head_norm": config.model_type == "qwen3",
        "is_tied": config.tie_word_embeddings,
        "windows": [window if each == "sliding_attention" else 0 for each in kinds],
        "has_rope": [bool(each) for each in getattr(config, "no_rope_layers", None) or [True] * num_layers],
    }


class Sequence:
    """One sequence's tokens and block table."""

    def __init__(self, token_ids: list[int], blocks: list[int]) -> None:
        self.token_ids = token_ids
        self.blocks = blocks
        self.num_computed = 0


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
    )
    return [logits[begin:end] for begin, end in pairwise(offsets)]


def ints(values: Any) -> NDArray[np.int32]:
    return np.array(values, dtype=np.int32)
