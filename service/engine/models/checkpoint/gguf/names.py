"""The names of a GGUF file's tensors in transformers' checkpoints, and the order of their rows."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import numpy.typing as npt

FACTORS: Final = "rope_freqs.weight"  # the divisor of each rotary frequency, in Llama 3.1 and later
_OUTSIDE: Final = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LAYER: Final = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_INTERLEAVED: Final = frozenset({"llama"})  # architectures whose files interleave the halves of a head's rows


def checkpoint_name(name: str) -> str | None:
    """Return the name of a tensor in transformers' checkpoints, or None if it is unknown."""
    module, _, kind = name.rpartition(".")
    layer = re.fullmatch(r"blk\.(\d{1,5})\.(\w+)", module)
    if layer is None:
        return f"{_OUTSIDE[module]}.{kind}" if module in _OUTSIDE else None
    return f"model.layers.{int(layer[1])}.{_LAYER[layer[2]]}.{kind}" if layer[2] in _LAYER else None


def in_halves(
    architecture: str, name: str, rows: npt.NDArray[Any], num_heads: int, num_kv_heads: int
) -> npt.NDArray[Any]:
    """Return the rows of a tensor in transformers' order; those of a Llama's queries and keys are interleaved."""
    heads = {"self_attn.q_proj.": num_heads, "self_attn.k_proj.": num_kv_heads}
    found = next((heads[each] for each in heads if each in name), None)
    if architecture not in _INTERLEAVED or found is None:
        return rows
    pairs = rows.reshape(found, -1, 2, *rows.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(rows.shape))
