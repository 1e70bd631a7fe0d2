"""The names of a GGUF file's tensors in transformers' checkpoints, and the order of their rows."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from service.engine.models.checkpoint.gguf.architectures import Architecture

FACTORS: Final = "rope_freqs.weight"  # the divisor of each rotary frequency, in Llama 3.1 and later
LONG_FACTORS: Final = "rope_factors_long.weight"  # likewise, beyond the length of training; in Phi-3
SHORT_FACTORS: Final = "rope_factors_short.weight"
# The matrices after the pooling of a model that embeds, and their folders in sentence-transformers' files.
DENSE: Final = {"dense_2.weight": "2_Dense", "dense_3.weight": "3_Dense"}
NOT_WEIGHTS: Final = frozenset({FACTORS, LONG_FACTORS, SHORT_FACTORS, *DENSE})
_BARE: Final = ("self_attn.sinks",)  # modules whose tensors have no kind in checkpoints


def checkpoint_name(name: str, architecture: Architecture) -> str | None:
    """Return the name of a tensor in transformers' checkpoints, or None if it is unknown.

    The name of a tensor of all experts of a layer has a `{}` for the index of one.
    """
    whole = re.fullmatch(r"blk\.(\d{1,5})\.([\w.]+)", name)
    if whole is not None and (vector := architecture.vectors.get(whole[2])) is not None:
        return f"{architecture.layers.format(int(whole[1]))}{vector}"
    path, _, kind = name.rpartition(".")
    layer = re.fullmatch(r"blk\.(\d{1,5})\.([\w.]+)", path)
    module = architecture.module(path if layer is None else layer[2], is_in_layer=layer is not None)
    if module is None or not kind.isidentifier():
        return None
    found = module if layer is None else f"{architecture.layers.format(int(layer[1]))}{module}"
    return found if module in _BARE else f"{found}.{kind}"


def in_halves(
    architecture: Architecture, name: str, rows: npt.NDArray[Any], num_heads: int, num_kv_heads: int
) -> npt.NDArray[Any]:
    """Return the rows of a tensor in transformers' order, which may be interleaved in queries and keys.

    Raise ValueError for rows that are not pairs of these heads.
    """
    heads = {"self_attn.q_proj.": num_heads, "self_attn.k_proj.": num_kv_heads}
    found = next((heads[each] for each in heads if each in name), None)
    if not architecture.is_interleaved or found is None:
        return rows
    if type(found) is not int or found < 1 or len(rows) % (2 * found):
        raise ValueError(f"its {len(rows)} rows are not pairs in {found} heads")
    pairs = rows.reshape(found, -1, 2, *rows.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(rows.shape))
