"""The kernel between projections and attention: norm and rotation of heads, and keys and values into their pages."""

from __future__ import annotations

import torch
import triton
from torch import Tensor

from service.engine.models.attention.device_kernels import HeadNormWeights
from service.engine.models.cuda.programs import heads as programs

_TILE_HEADS = 8  # of a program


def prepare_heads(
    heads: Tensor, num_heads: int, rotations: Tensor | None, norm: HeadNormWeights | None,
    *, positions: Tensor, slots: Tensor, keys: Tensor, values: Tensor,
) -> None:  # fmt: skip
    """Normalize and rotate queries in place, and keys, which are stored with the values at their slots.

    `heads` [tokens, heads + 2 * kv heads, head dim] is contiguous; `rotations` complex64 [positions, 1, rotated pairs],
    `keys` and `values` [slots, kv heads, head dim].
    """
    num_tokens, num_all, dim = heads.shape
    num_kv_heads = (num_all - num_heads) // 2
    table = heads if rotations is None else torch.view_as_real(rotations)
    limits = torch.finfo(keys.dtype)
    programs.prepare_heads[num_tokens, triton.cdiv(num_all, _TILE_HEADS)](
        heads, table, positions, slots, heads if norm is None else norm.weight, keys, values,
        0.0 if norm is None else norm.epsilon, limits.min, limits.max,
        0 if rotations is None else rotations.shape[-1],
        NUM_HEADS=num_heads, NUM_KV_HEADS=num_kv_heads, DIM=dim, WIDTH=max(triton.next_power_of_2(dim), 2),
        TILE_HEADS=_TILE_HEADS, HAS_NORM=norm is not None, NORM_IS_LAST=norm is not None and norm.is_last,
        IS_CLAMPED=limits.max < torch.finfo(heads.dtype).max,
    )  # fmt: skip
