"""Programs of matrix products, dense and by experts."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["num_rows", "num_experts", "rows_of_input"])
def multiply_tile(
    x, weight, bias, residual, result, row_ids, row_offsets, tile_offsets,
    num_rows, num_experts, outputs, inputs, x_stride, rows_of_input,
    TILE_ROWS: tl.constexpr, TILE_OUTPUTS: tl.constexpr, STEP: tl.constexpr, PART: tl.constexpr,
    IS_PART: tl.constexpr, HAS_ONE_PART: tl.constexpr, IS_EVEN: tl.constexpr,
    HAS_BIAS: tl.constexpr, HAS_RESIDUAL: tl.constexpr, BY_EXPERT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute a tile of x · weightᵀ + bias + residual, or one part of it.

    By expert, rows are sorted by expert: expert e has the rows from row_offsets[e] on and the tiles from
    tile_offsets[e] on, and row r reads row row_ids[r] // rows_of_input of x.
    """
    tile, column_tile = tl.program_id(0), tl.program_id(1)
    if BY_EXPERT:
        if tile >= tl.load(tile_offsets + num_experts):
            return
        low, high = 0, num_experts
        while low < high:
            middle = (low + high) // 2
            if tl.load(tile_offsets + middle) <= tile:
                low = middle + 1
            else:
                high = middle
        expert = low - 1
        first = tl.load(row_offsets + expert) + (tile - tl.load(tile_offsets + expert)) * TILE_ROWS
        rows_end = tl.load(row_offsets + expert + 1)
        weight += expert.to(tl.int64) * outputs * inputs
        bias += expert * outputs
    else:
        first = tile * TILE_ROWS
        rows_end = num_rows
    row = first + tl.arange(0, TILE_ROWS)
    is_row = row < rows_end
    if BY_EXPERT:
        read = tl.load(row_ids + row, is_row, 0) // rows_of_input
    else:
        read = row
    column = column_tile * TILE_OUTPUTS + tl.arange(0, TILE_OUTPUTS)
    is_column = column < outputs
    step = tl.arange(0, STEP)
    x_rows = x + read.to(tl.int64)[:, None] * x_stride + step[None, :]
    weight_columns = weight + column.to(tl.int64)[None, :] * inputs + step[:, None]
    total = tl.zeros([TILE_ROWS, TILE_OUTPUTS], tl.float32)
    if HAS_ONE_PART:
        begin, end = tl.program_id(2) * PART, tl.minimum(tl.program_id(2) * PART + PART, inputs)
        total = sum_part(x_rows, weight_columns, is_row, is_column, begin, end, step, total, IS_EVEN, PRECISION)
    else:
        for begin in range(0, inputs, PART):
            part = tl.zeros([TILE_ROWS, TILE_OUTPUTS], tl.float32)
            end = tl.minimum(begin + PART, inputs)
            part = sum_part(x_rows, weight_columns, is_row, is_column, begin, end, step, part, IS_EVEN, PRECISION)
            total += part
    is_number = is_row[:, None] & is_column[None, :]
    place = row.to(tl.int64)[:, None] * outputs + column[None, :]
    if IS_PART:
        place += tl.program_id(2).to(tl.int64) * num_rows * outputs
        tl.store(result + place, total, is_number)
    else:
        if HAS_BIAS:
            total += tl.load(bias + column, is_column, 0.0).to(tl.float32)[None, :]
        if HAS_RESIDUAL:
            total += tl.load(residual + place, is_number, 0.0).to(tl.float32)
        tl.store(result + place, total.to(result.dtype.element_ty), is_number)


@triton.jit
def sum_part(
    x_rows, weight_columns, is_row, is_column, begin, end, step, total,
    IS_EVEN: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    for start in range(begin, end, step.shape[0]):
        if IS_EVEN:
            own = tl.load(weight_columns + start, is_column[None, :], 0.0)
            read = tl.load(x_rows + start, is_row[:, None], 0.0)
        else:
            exists = start + step < end
            own = tl.load(weight_columns + start, exists[:, None] & is_column[None, :], 0.0)
            read = tl.load(x_rows + start, is_row[:, None] & exists[None, :], 0.0)
        total = tl.dot(read.to(own.dtype), own, total, input_precision=PRECISION)
    return total


@triton.jit(do_not_specialize=["num_numbers"])
def add_parts(
    parts, bias, residual, result, num_numbers, outputs,
    NUM_PARTS: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_RESIDUAL: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Add the parts of a product in ascending order."""
    place = tl.program_id(0) * TILE + tl.arange(0, TILE)
    exists = place < num_numbers
    total = tl.zeros([TILE], tl.float32)
    for part in range(NUM_PARTS):
        total += tl.load(parts + part * num_numbers + place, exists, 0.0)
    if HAS_BIAS:
        total += tl.load(bias + place % outputs, exists, 0.0).to(tl.float32)
    if HAS_RESIDUAL:
        total += tl.load(residual + place, exists, 0.0).to(tl.float32)
    tl.store(result + place, total.to(result.dtype.element_ty), exists)


@triton.jit
def weighted_sum(values, places, weights, result, width, NUM_CHOSEN: tl.constexpr, TILE: tl.constexpr):
    """Add the results of a token's experts in the order of its choice."""
    token = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    exists = column < width
    total = tl.zeros([TILE], tl.float32)
    for nth in range(NUM_CHOSEN):
        place = tl.load(places + token * NUM_CHOSEN + nth)
        own = tl.load(values + place * width + column, exists, 0.0).to(tl.float32)
        total += own * tl.load(weights + token * NUM_CHOSEN + nth)
    tl.store(result + token * width + column, total.to(result.dtype.element_ty), exists)
