"""Tensors of single families as llama.cpp's converter stores them: a tensor of the checkpoint to those of the file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
_PROJECTIONS: dict[str, list[Array]] = {"model.altup": [], "model.altup_unembed": []}  # of the model being written


def of_latents(name: str, array: Array, config: Any) -> Iterator[tuple[str, Array]]:
    """Yield a tensor of attention over latents; files store the up-projections of keys and of values separately."""
    name = name.replace("e_score_correction_bias", "e_score_correction.bias")
    if "kv_b_proj" not in name:
        yield name, array.squeeze()
        return
    rows = array.reshape(config.num_attention_heads, config.qk_nope_head_dim + config.v_head_dim, -1)
    keys, values = rows[:, : config.qk_nope_head_dim], rows[:, config.qk_nope_head_dim :]
    yield name.replace("kv_b_proj", "k_b_proj"), np.ascontiguousarray(keys.swapaxes(1, 2))
    yield name.replace("kv_b_proj", "v_b_proj"), np.ascontiguousarray(values)


def with_correction(name: str, array: Array, _: Any) -> Iterator[tuple[str, Array]]:
    """Yield a tensor of experts whose scores have a correction, under the correction's name in files."""
    name = name.replace("mlp.gate.moe_statics", "mlp.moe_statics")
    yield name.replace("e_score_correction_bias", "e_score_correction.bias"), array.squeeze()


def without_curves(name: str, array: Array, _: Any) -> Iterator[tuple[str, Array]]:
    """Yield a tensor of Apertus, except the parameters of activation functions, which are metadata in files."""
    if ".act_fn." not in name:
        yield name, array.squeeze()


def multiplied(name: str, array: Array, config: Any) -> Iterator[tuple[str, Array]]:
    """Yield a tensor of Falcon-H1, multiplied by its multiplier of the configuration, which files lack."""
    given = config.attention_in_multiplier
    factors = {
        "down_proj": config.mlp_multipliers[1],
        "gate_proj": config.mlp_multipliers[0],
        "k_proj": config.key_multiplier * given,
        "q_proj": given,
        "v_proj": given,
        "o_proj": config.attention_out_multiplier,
        "out_proj": config.ssm_out_multiplier,
        "lm_head": config.lm_head_multiplier,
        "embed_tokens": config.embedding_multiplier,
    }
    module = name.split(".")[-2]
    if module == "in_proj":
        inner, states = config.mamba_d_ssm, config.mamba_n_groups * config.mamba_d_state
        widths = [inner, inner, states, states, len(array) - 2 * inner - 2 * states]
        array = array * config.ssm_in_multiplier * np.repeat(config.ssm_multipliers, widths)[:, None]
    elif "mamba.norm" in name:
        array = array.reshape(config.mamba_n_groups, -1)
    array = array * factors.get(module, 1.0)
    array = array.squeeze()
    if name.endswith("A_log"):
        array = -np.exp(array)
    if name.endswith(("A_log", ".D")):
        array = array[:, None]
    yield name.replace(".dt_bias", ".dt_proj.bias"), array.astype(np.float32)


def of_mamba2(name: str, array: Array, config: Any) -> Iterator[tuple[str, Array]]:
    """Yield a tensor of a model with Mamba-2 in some layers."""
    if "mamba.norm" in name:
        array = array.reshape(config.mamba_n_groups, -1)
    if name.endswith("A_log"):
        array = -np.exp(array)
    if not config.num_local_experts:
        name = name.replace("shared_mlp.output_linear", "mlp.down_proj")
    array = array.squeeze()
    yield name.replace(".dt_bias", ".dt_proj.bias"), array[:, None] if name.endswith(("A_log", ".D")) else array


def of_mamba(name: str, array: Array, config: Any) -> Iterator[tuple[str, Array]]:
    """Yield a tensor of Mamba, Mamba-2, Jamba or Nemotron-H."""
    is_second = config.model_type in {"mamba2", "nemotron_h"}
    if name.endswith("A_log"):
        array = -np.exp(array)
    array = array.squeeze()
    if is_second and name.endswith(("A_log", ".D")):
        array = array[:, None]
    if is_second and name.endswith("mixer.norm.weight"):
        array = array.reshape(config.n_groups, -1)
    name = name.replace(".dt_bias", ".dt_proj.bias").replace("e_score_correction_bias", "e_score_correction.bias")
    if config.model_type == "nemotron_h":
        name = name.replace("model.", "backbone.")
    yield name, array


def of_gemma3n(name: str, array: Array, config: Any) -> Iterator[tuple[str, Array]]:
    """Yield a tensor of Gemma 3n, whose projections between residuals are one tensor in files."""
    stem, _, end = name.partition("_projections.")
    if end and stem in _PROJECTIONS:
        _PROJECTIONS[stem].append(array)
        if len(_PROJECTIONS[stem]) == config.altup_num_inputs - 1:
            yield f"{stem}_projections.weight", np.stack(_PROJECTIONS[stem])
            _PROJECTIONS[stem].clear()
        return
    yield f"{name}.weight" if name.endswith("_scale") else name, array


def of_gemma4(name: str, array: Array, _: Any) -> Iterator[tuple[str, Array]]:
    """Yield a tensor of Gemma 4."""
    layer = name.split(".")[2]
    if name.endswith("router.scale"):
        yield f"blk.{layer}.ffn_gate_inp.scale", array
    elif name.endswith("per_expert_scale"):
        yield f"blk.{layer}.ffn_down_exps.scale", array
    else:
        yield f"{name}.weight" if name.endswith("layer_scalar") else name, array


def of_exaone_moe(name: str, array: Array, _: Any) -> Iterator[tuple[str, Array]]:
    """Yield a tensor of EXAONE with experts."""
    yield name.replace("gate.e_score_correction_bias", "e_score_correction.bias"), array.squeeze()


def of_minimax_m2(name: str, array: Array, _: Any) -> Iterator[tuple[str, Array]]:
    """Yield a tensor of MiniMax-M2, whose experts' modules have other names in current versions of transformers."""
    name = name.replace("e_score_correction_bias", "e_score_correction.bias")
    yield name.replace("mlp.", "block_sparse_moe."), array.squeeze()


def with_expert_bias(name: str, array: Array, _: Any) -> Iterator[tuple[str, Array]]:
    """Yield a tensor of LFM2 with experts, whose scores have a correction."""
    yield name.replace(".expert_bias", ".expert_bias.bias"), array.squeeze()


def of_delta_net(name: str, array: Array, config: Any) -> Iterator[tuple[str, Array]]:
    """Yield a tensor of Qwen3-Next; files don't group queries, keys, values and gates by key head."""
    if name.endswith("A_log"):
        array = -np.exp(array)
    if "in_proj_qkvz" not in name:
        yield name.replace(".dt_bias", ".dt_proj.bias"), array.squeeze()
        return
    keys, each = config.linear_num_key_heads, config.linear_key_head_dim
    values = config.linear_num_value_heads // keys * config.linear_value_head_dim
    parts = np.split(array.reshape(keys, -1, array.shape[-1]), np.cumsum([each, each, values]), axis=1)
    flat = [part.reshape(-1, array.shape[-1]) for part in parts]
    yield name.replace("in_proj_qkvz", "in_proj_qkv"), np.concatenate(flat[:3])
    yield name.replace("in_proj_qkvz", "in_proj_z"), flat[3]


def tiled(name: str, array: Array, config: Any) -> Iterator[tuple[str, Array]]:
    """Yield a tensor of Qwen3.5; files interleave the value heads of the key heads."""
    keys, width = config.linear_num_key_heads, config.linear_value_head_dim

    def in_turns(rows: Array, each: int) -> Array:
        return rows.reshape(keys, -1, each, *rows.shape[1:]).swapaxes(0, 1).reshape(rows.shape)

    module = name.partition(".linear_attn.")[2].removesuffix(".weight")
    array = array.squeeze()
    if module in {"in_proj_qkv", "conv1d"}:
        first = 2 * keys * config.linear_key_head_dim
        array = np.concatenate([array[:first], in_turns(array[first:], width)])
    elif module == "in_proj_z":
        array = in_turns(array, width)
    elif module == "out_proj":
        array = in_turns(array.T, width).T
    elif module in {"in_proj_a", "in_proj_b", "A_log", "dt_bias"}:
        array = in_turns(array, 1)
    yield from of_delta_net(name, array, config)


def of_experts(name: str, array: Array, config: Any) -> Iterator[tuple[str, Array]]:
    """Yield gate and up separately, with the rows of outputs first."""
    stem, is_bias = name.removesuffix(".weight").removesuffix("_bias"), name.endswith("_bias")
    stem, end = stem.replace("mixer.experts", "mlp.experts"), ".bias" if is_bias else ".weight"
    if config.model_type == "gemma4_text":
        yield stem + end, array
        return
    if config.model_type == "gpt_oss" and not is_bias:
        array = array.swapaxes(-1, -2)
    if "gate_up_proj" not in stem and "input_linear" not in stem:
        yield stem.replace("block_sparse_moe.experts", "mlp.experts") + end, array
        return
    axis = array.ndim - 1 if is_bias else array.ndim - 2
    if config.model_type == "gpt_oss":
        parts = [np.take(array, range(first, array.shape[axis], 2), axis) for first in (0, 1)]
    else:
        parts = np.split(array, 2, axis)
    shared = "mlp.shared_expert" if getattr(config, "num_local_experts", 0) else "mlp"
    where = f"model.layers.{{}}.{shared}" if "shared_mlp" in stem else "model.layers.{}.mlp.experts"
    base = where.format(stem.split(".")[2])
    yield f"{base}.gate_proj{end}", parts[0]
    yield f"{base}.up_proj{end}", parts[1]


def ungrouped(name: str, array: Array, config: Any) -> Iterator[tuple[str, Array]]:
    """Yield a tensor of GPT-NeoX or Falcon; files don't group queries, keys and values by heads of keys."""
    if "query_key_value" not in name:
        yield name, array
        return
    is_falcon = config.model_type == "falcon"
    has_many = not is_falcon or config.new_decoder_architecture
    keys = (config.num_kv_heads if is_falcon else config.num_attention_heads) if has_many else 1
    queries = config.num_attention_heads
    heads = array.reshape(keys, queries // keys + 2, -1, *array.shape[1:])
    parts = (heads[:, :-2], heads[:, -2], heads[:, -1])
    yield name, np.concatenate([part.reshape(-1, *array.shape[1:]) for part in parts])


def of_bitnet(name: str, array: Array, _: Any) -> Iterator[tuple[str, Array]]:
    """Yield a tensor of BitNet, by the names that the converter knows."""
    yield name.replace("attn_sub_norm", "inner_attn_ln").replace("ffn_sub_norm", "ffn_layernorm"), array


def with_fused_heads(tensors: Iterable[tuple[str, Array]]) -> Iterator[tuple[str, Array]]:
    """Yield a file's tensors, with queries, keys and values in one; in `tensors`, values are the last of them."""
    parts: dict[str, list[Array]] = {}
    for name, array in tensors:
        fused = re.sub(r"\.attn_[qkv]\.", ".attn_qkv.", name)
        if fused == name:
            yield name, array
            continue
        parts.setdefault(fused, []).append(array)
        if ".attn_v." in name:
            yield fused, np.concatenate(parts.pop(fused))


def with_fused_experts(tensors: Iterable[tuple[str, Array]]) -> Iterator[tuple[str, Array]]:
    """Yield a file's tensors, with gate and up of experts in one; in `tensors`, up follows gate."""
    gate = np.empty(0)
    for name, array in tensors:
        if ".ffn_gate_exps." in name:
            gate = array
        elif ".ffn_up_exps." in name:
            yield name.replace("up_exps", "gate_up_exps"), np.concatenate([gate, array], axis=1)
        else:
            yield name, array


def in_pairs(weight: Array, num_heads: int) -> Array:
    """Return rows in the order in which the two halves of each head alternate."""
    return weight.reshape(num_heads, 2, -1, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)
