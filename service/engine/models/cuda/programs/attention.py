"""Programs of paged attention."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def attend_part(
    queries, keys, values, table, begin, end, rows,
    scale, soft_cap, slot_stride,
    PAGE: tl.constexpr, WINDOW: tl.constexpr, HAS_CAP: tl.constexpr, DIM: tl.constexpr, WIDTH: tl.constexpr,
    TILE_KEYS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Return the weighted sum of values, the largest score and the sum of weights of positions begin to end.

    `queries` [rows, width] at the positions `rows`. Scores have base 2.
    """
    total = tl.zeros([queries.shape[0], WIDTH], tl.float32)
    top = tl.full([queries.shape[0]], float("-inf"), tl.float32)
    weight_sum = tl.zeros([queries.shape[0]], tl.float32)
    dims = tl.arange(0, WIDTH)
    for start in range(begin, end, TILE_KEYS):
        positions = start + tl.arange(0, TILE_KEYS)
        exists = positions < end
        pages = tl.load(table + positions // PAGE, mask=exists, other=0).to(tl.int64)
        slots = (pages * PAGE + positions % PAGE) * slot_stride
        key = tl.load(
            keys + slots[None, :] + dims[:, None], mask=exists[None, :] & (dims < DIM)[:, None], other=0.0
        ).to(queries.dtype)
        scores = tl.dot(queries, key, input_precision=PRECISION) * scale
        if HAS_CAP:  # tanh(x) is 1 - 2 / (exp(2 x) + 1)
            scores = soft_cap * (1.0 - 2.0 / (tl.exp2(scores / soft_cap * (2.0 * 1.4426950408889634)) + 1.0))
        sees = exists[None, :] & (positions[None, :] <= rows[:, None])
        if WINDOW > 0:
            sees = sees & (positions[None, :] > rows[:, None] - WINDOW)
        scores = tl.where(sees, scores * 1.4426950408889634, float("-inf"))
        highest = tl.maximum(top, tl.max(scores, 1))
        zero = tl.where(highest == float("-inf"), 0.0, highest)
        weights = tl.exp2(scores - zero[:, None])
        shrink = tl.exp2(top - zero)
        weight_sum = tl.fma(weight_sum, shrink, tl.sum(weights, 1))
        value = tl.load(
            values + slots[:, None] + dims[None, :], mask=exists[:, None] & (dims < DIM)[None, :], other=0.0
        ).to(queries.dtype)
        total = tl.dot(weights.to(queries.dtype), value, total * shrink[:, None], input_precision=PRECISION)
        top = highest
    return total, top, weight_sum


@triton.jit
def factors(top, part_top):
    """Return the larger of two scores, and the factors that sums relative to each of them get."""
    highest = tl.maximum(top, part_top)
    zero = tl.where(highest == float("-inf"), 0.0, highest)
    return highest, tl.exp2(top - zero), tl.exp2(part_top - zero)


@triton.jit(do_not_specialize=["num_sequences", "table_stride"])
def attend_rows(
    queries, keys, values, result, sinks, tables, offsets, lengths, num_sequences,
    scale, soft_cap, token_stride, slot_stride, table_stride,
    PAGE: tl.constexpr, GROUP: tl.constexpr, PADDED_GROUP: tl.constexpr, NUM_HEADS: tl.constexpr, WINDOW: tl.constexpr,
    HAS_CAP: tl.constexpr, HAS_SINKS: tl.constexpr, DIM: tl.constexpr, WIDTH: tl.constexpr,
    TILE_ROWS: tl.constexpr, TILE_KEYS: tl.constexpr, SPLIT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Attend for TILE_ROWS / PADDED_GROUP new tokens of a sequence that has several, and the heads of one kv head."""
    TILE_TOKENS: tl.constexpr = TILE_ROWS // PADDED_GROUP
    tile, kv_head = tl.program_id(0), tl.program_id(1)
    # Sequence s has the tiles from offsets[s] // TILE_TOKENS + s on.
    low, high = 0, num_sequences
    while low < high:
        middle = (low + high) // 2
        if tl.load(offsets + middle) // TILE_TOKENS + middle <= tile:
            low = middle + 1
        else:
            high = middle
    sequence = low - 1
    first = tl.load(offsets + sequence)
    num_new = tl.load(offsets + sequence + 1) - first
    first_token = (tile - first // TILE_TOKENS - sequence) * TILE_TOKENS
    if (num_new == 1) | (first_token >= num_new):
        return
    length = tl.load(lengths + sequence)
    of_tile = tl.arange(0, TILE_ROWS)
    token, of_group = first_token + of_tile // PADDED_GROUP, of_tile % PADDED_GROUP
    head = kv_head * GROUP + of_group
    is_row = (token < num_new) & (of_group < GROUP)
    dims = tl.arange(0, WIDTH)
    is_number = is_row[:, None] & (dims < DIM)[None, :]
    places = (first + token).to(tl.int64)
    query = tl.load(queries + places[:, None] * token_stride + (head * DIM)[:, None] + dims[None, :], is_number, 0.0)
    rows = length - num_new + token
    last = tl.minimum(first_token + TILE_TOKENS, num_new)
    end = length - num_new + last  # after the last position that the tile sees
    begin = 0
    if WINDOW > 0:
        begin = tl.maximum(length - num_new + first_token - WINDOW + 1, 0) // SPLIT * SPLIT
    total = tl.zeros([TILE_ROWS, WIDTH], tl.float32)
    if HAS_SINKS:
        top = tl.load(sinks + head, is_row, 0.0).to(tl.float32) * 1.4426950408889634
        weight_sum = tl.full([TILE_ROWS], 1.0, tl.float32)
    else:
        top = tl.full([TILE_ROWS], float("-inf"), tl.float32)
        weight_sum = tl.zeros([TILE_ROWS], tl.float32)
    head_offset = kv_head * DIM
    for part in range(begin, end, SPLIT):
        part_total, part_top, part_sum = attend_part(
            query, keys + head_offset, values + head_offset, tables + sequence * table_stride,
            part, tl.minimum(part + SPLIT, end), rows, scale, soft_cap, slot_stride,
            PAGE, WINDOW, HAS_CAP, DIM, WIDTH, TILE_KEYS, PRECISION,
        )  # fmt: skip
        top, old, new = factors(top, part_top)
        weight_sum = tl.fma(weight_sum, old, part_sum * new)
        total = tl.fma(total, old[:, None], part_total * new[:, None])
    total = total / tl.where(is_row, weight_sum, 1.0)[:, None]
    place = result + (places[:, None] * NUM_HEADS + head[:, None]) * DIM + dims[None, :]
    tl.store(place, total.to(result.dtype.element_ty), is_number)


@triton.jit(do_not_specialize=["table_stride", "most_parts"])
def attend_decodes(
    queries, keys, values, totals, tops, sums, tables, offsets, lengths,
    scale, soft_cap, token_stride, slot_stride, table_stride, most_parts,
    PAGE: tl.constexpr, GROUP: tl.constexpr, NUM_HEADS: tl.constexpr, WINDOW: tl.constexpr, HAS_CAP: tl.constexpr,
    DIM: tl.constexpr, WIDTH: tl.constexpr, TILE_ROWS: tl.constexpr, TILE_KEYS: tl.constexpr,
    SPLIT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Attend to every n-th part of the context of a sequence with one new token, for the heads of one kv head."""
    sequence, kv_head = tl.program_id(0), tl.program_id(1)
    first = tl.load(offsets + sequence)
    if tl.load(offsets + sequence + 1) - first != 1:
        return
    length = tl.load(lengths + sequence)
    of_group = tl.arange(0, TILE_ROWS)
    head = kv_head * GROUP + of_group
    is_row = of_group < GROUP
    dims = tl.arange(0, WIDTH)
    is_number = is_row[:, None] & (dims < DIM)[None, :]
    query = tl.load(queries + first.to(tl.int64) * token_stride + (head * DIM)[:, None] + dims[None, :], is_number, 0.0)
    rows = tl.zeros([TILE_ROWS], tl.int32) + length - 1
    first_part = 0
    if WINDOW > 0:
        first_part = tl.maximum(length - WINDOW, 0) // SPLIT
    head_offset = kv_head * DIM
    for part in range(first_part + tl.program_id(2), tl.cdiv(length, SPLIT), tl.num_programs(2)):
        total, top, weight_sum = attend_part(
            query, keys + head_offset, values + head_offset, tables + sequence * table_stride,
            part * SPLIT, tl.minimum(part * SPLIT + SPLIT, length), rows, scale, soft_cap, slot_stride,
            PAGE, WINDOW, HAS_CAP, DIM, WIDTH, TILE_KEYS, PRECISION,
        )  # fmt: skip
        place = (sequence.to(tl.int64) * NUM_HEADS + head) * most_parts + part
        tl.store(totals + place[:, None] * DIM + dims[None, :], total, is_number)
        tl.store(tops + place, top, is_row)
        tl.store(sums + place, weight_sum, is_row)


@triton.jit(do_not_specialize=["most_parts"])
def merge_parts(
    totals, tops, sums, result, sinks, offsets, lengths, most_parts,
    NUM_HEADS: tl.constexpr, WINDOW: tl.constexpr, HAS_SINKS: tl.constexpr,
    DIM: tl.constexpr, WIDTH: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    """Merge the parts of one head of a sequence with one new token."""
    sequence, head = tl.program_id(0), tl.program_id(1)
    token = tl.load(offsets + sequence)
    if tl.load(offsets + sequence + 1) - token != 1:
        return
    length = tl.load(lengths + sequence)
    dims = tl.arange(0, WIDTH)
    total = tl.zeros([WIDTH], tl.float32)
    if HAS_SINKS:
        top = tl.load(sinks + head).to(tl.float32) * 1.4426950408889634
        weight_sum = 1.0
    else:
        top = float("-inf")
        weight_sum = 0.0
    first_part = 0
    if WINDOW > 0:
        first_part = tl.maximum(length - WINDOW, 0) // SPLIT
    for part in range(first_part, tl.cdiv(length, SPLIT)):
        place = (sequence.to(tl.int64) * NUM_HEADS + head) * most_parts + part
        top, old, new = factors(top, tl.load(tops + place))
        weight_sum = tl.fma(weight_sum, old, tl.load(sums + place) * new)
        part_total = tl.load(totals + place * DIM + dims, dims < DIM, 0.0)
        total = tl.fma(total, old, part_total * new)
    total = total / weight_sum
    place = (token.to(tl.int64) * NUM_HEADS + head) * DIM
    tl.store(result + place + dims, total.to(result.dtype.element_ty), dims < DIM)
