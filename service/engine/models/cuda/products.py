"""Matrix products whose sums have the same order for any number of rows.

The inputs of a product are divided into parts, whose number depends on the shape of the weight only. Few rows take one
program for each part, and a second kernel adds the parts in ascending order; many rows take one program that does the
same with all parts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from service.engine.models.cuda.programs import products as programs

_MOST_ROWS_IN_PARTS = 64
_MANY_ROWS = 512
_MANY_OUTPUTS = 16_384
_ENOUGH_PROGRAMS = 192  # for devices with about 130 processors
_LEAST_INPUTS = 512  # of a part
_PART_MULTIPLE = 128  # of inputs
_HALF = 2  # bytes of float16 and bfloat16


@dataclass(frozen=True, slots=True)
class _Tile:
    """The numbers of a program. The bits of a row don't depend on them (seen on Hopper)."""

    rows: int
    outputs: int
    step: int  # inputs that are loaded at once
    warps: int
    stages: int


_WIDE = _Tile(64, 64, 32, 4, 3)  # of float32
_FEW = _Tile(16, 64, 128, 4, 4)
_SOME = _Tile(64, 64, 128, 4, 3)
_MORE = _Tile(64, 64, 64, 4, 4)
_MANY = _Tile(128, 256, 64, 8, 3)
_MANY_IN_PARTS = _Tile(128, 128, 64, 8, 3)  # the sum of parts takes as many registers as a part


def _tile(rows: int, outputs: int, dtype: torch.dtype, *, adds_parts: bool) -> _Tile:
    """Return the fastest of a few tiles, measured on an H200."""
    if dtype.itemsize > _HALF:
        return _WIDE
    if rows <= _FEW.rows and outputs < _MANY_OUTPUTS:
        return _FEW
    if rows <= _MOST_ROWS_IN_PARTS:
        return _SOME
    if rows <= _MANY_ROWS:
        return _MORE
    return _MANY_IN_PARTS if adds_parts else _MANY


def part_of(outputs: int, inputs: int) -> int:
    """Return the inputs of a part, so that the programs of few rows fill a device. A row's bits depend on it."""
    columns = triton.cdiv(outputs, _SOME.outputs)
    num_parts = 1
    while columns * num_parts < _ENOUGH_PROGRAMS and inputs // (2 * num_parts) >= _LEAST_INPUTS:
        num_parts *= 2
    return int(triton.cdiv(triton.cdiv(inputs, num_parts), _PART_MULTIPLE) * _PART_MULTIPLE)


def precision(dtype: torch.dtype) -> str:
    """Return the precision of products: float32 is not shortened to tf32."""
    return "ieee" if dtype == torch.float32 else "tf32"


def multiply(x: Tensor, weight: Tensor, bias: Tensor | None = None, residual: Tensor | None = None) -> Tensor:
    """Return x [rows, inputs] · weightᵀ [inputs, outputs] + bias + residual, in the type of `weight`."""
    rows, (outputs, inputs) = len(x), weight.shape
    result = torch.empty(rows, outputs, dtype=weight.dtype, device=x.device)
    part = part_of(outputs, inputs)
    num_parts = triton.cdiv(inputs, part) if rows <= _MOST_ROWS_IN_PARTS else 1
    written = result
    if num_parts > 1:
        written = torch.empty(num_parts, rows, outputs, dtype=torch.float32, device=x.device)
    tile = _tile(rows, outputs, weight.dtype, adds_parts=part < inputs)
    programs.multiply_tile[triton.cdiv(rows, tile.rows), triton.cdiv(outputs, tile.outputs), num_parts](
        x, weight, weight if bias is None else bias, weight if residual is None else residual, written, x, x, x,
        rows, 0, outputs, inputs, x.stride(0), 1,
        TILE_ROWS=tile.rows, TILE_OUTPUTS=tile.outputs, STEP=tile.step, PART=part, IS_PART=num_parts > 1,
        HAS_ONE_PART=num_parts > 1 or part >= inputs, IS_EVEN=inputs % tile.step == 0,
        HAS_BIAS=bias is not None, HAS_RESIDUAL=residual is not None, BY_EXPERT=False,
        PRECISION=precision(weight.dtype), num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    if num_parts > 1:
        _add(written, bias, residual, result)
    return result


def _add(parts: Tensor, bias: Tensor | None, residual: Tensor | None, result: Tensor) -> None:
    tile = 1024
    programs.add_parts[triton.cdiv(result.numel(), tile),](
        parts, result if bias is None else bias, result if residual is None else residual, result,
        result.numel(), result.shape[1],
        NUM_PARTS=len(parts), HAS_BIAS=bias is not None, HAS_RESIDUAL=residual is not None, TILE=tile,
    )  # fmt: skip


class InvariantLinear:
    """A linear layer whose rows' bits don't depend on their number."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        """Keep `weight` [outputs, inputs]."""
        self._weight = weight.contiguous()
        self._bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        """Return y [rows, outputs] for x [rows, inputs]."""
        return multiply(x, self._weight, self._bias)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """Return `residual` + y."""
        return multiply(x, self._weight, self._bias, residual)
