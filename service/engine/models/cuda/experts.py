"""The matrix products of experts, each of whose matrices is read once a step, and only if a token has chosen it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from service.engine.models.cuda.products import precision
from service.engine.models.cuda.programs import products as programs

_TILE_ROWS = 64
_TILE_OUTPUTS = 64
_HALF = 2  # bytes of float16 and bfloat16


@dataclass(frozen=True, slots=True)
class ExpertRows:
    """The rows of a step sorted by expert. A token has a row for each expert that it chose."""

    order: Tensor  # int32 [rows], the unsorted row that each sorted row is
    places: Tensor  # int32 [rows], the inverse
    row_offsets: Tensor  # int32 [experts + 1]
    tile_offsets: Tensor  # int32 [experts + 1]

    @classmethod
    def sort(cls, chosen: Tensor, num_experts: int) -> ExpertRows:
        """Sort `chosen` [tokens, chosen] without waiting for the device."""
        flat = chosen.flatten()
        experts, order = torch.sort(flat, stable=True)
        bounds = torch.arange(num_experts + 1, device=flat.device, dtype=experts.dtype)
        row_offsets = torch.searchsorted(experts, bounds)
        tiles = (row_offsets.diff() + (_TILE_ROWS - 1)) // _TILE_ROWS
        tile_offsets = torch.zeros_like(row_offsets)
        torch.cumsum(tiles, 0, out=tile_offsets[1:])
        places = torch.empty_like(order)
        places[order] = torch.arange(len(order), device=order.device)
        return cls(order.int(), places.int(), row_offsets.int(), tile_offsets.int())


def multiply_experts(
    x: Tensor, weight: Tensor, bias: Tensor | None, rows: ExpertRows, rows_of_input: int | None
) -> Tensor:
    """Return each sorted row's product with its expert's matrix, [rows, outputs].

    `weight` [experts, outputs, inputs]. With `rows_of_input` x is unsorted, and each of its rows is the input of so
    many; otherwise x is sorted.
    """
    num_experts, outputs, inputs = weight.shape
    is_wide = weight.dtype.itemsize > _HALF
    step = 32 if is_wide else 128
    num_rows = len(rows.order)
    result = torch.empty(num_rows, outputs, dtype=weight.dtype, device=x.device)
    order = rows.order if rows_of_input else torch.arange(num_rows, dtype=torch.int32, device=x.device)
    grid = (min(num_experts, num_rows) + num_rows // _TILE_ROWS, triton.cdiv(outputs, _TILE_OUTPUTS), 1)
    programs.multiply_tile[grid](
        x, weight, weight if bias is None else bias, weight, result, order, rows.row_offsets, rows.tile_offsets,
        num_rows, num_experts, outputs, inputs, x.stride(0), rows_of_input or 1,
        TILE_ROWS=_TILE_ROWS, TILE_OUTPUTS=_TILE_OUTPUTS, STEP=step, PART=triton.cdiv(inputs, step) * step,
        IS_PART=False, HAS_ONE_PART=True, IS_EVEN=inputs % step == 0,
        HAS_BIAS=bias is not None, HAS_RESIDUAL=False, BY_EXPERT=True,
        PRECISION=precision(weight.dtype), num_warps=4, num_stages=3,
    )  # fmt: skip
    return result


def weighted_sum(values: Tensor, rows: ExpertRows, weights: Tensor) -> Tensor:
    """Return each token's sum [tokens, width] of its experts' results, times `weights` float32 [tokens, chosen]."""
    num_tokens, num_chosen = weights.shape
    width = values.shape[1]
    result = torch.empty(num_tokens, width, dtype=values.dtype, device=values.device)
    programs.weighted_sum[num_tokens, triton.cdiv(width, 1024)](
        values, rows.places, weights.contiguous(), result, width, NUM_CHOSEN=num_chosen, TILE=1024
    )
    return result
