"""The program between projections and attention."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def prepare_heads(
    heads, rotations, positions, slots, weight, keys, values,
    epsilon, least, most, num_rotated_pairs,
    NUM_HEADS: tl.constexpr, NUM_KV_HEADS: tl.constexpr, DIM: tl.constexpr, WIDTH: tl.constexpr,
    TILE_HEADS: tl.constexpr, HAS_NORM: tl.constexpr, NORM_IS_LAST: tl.constexpr, IS_CLAMPED: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * TILE_HEADS + tl.arange(0, TILE_HEADS)
    exists = head < NUM_HEADS + 2 * NUM_KV_HEADS
    is_turned = head < NUM_HEADS + NUM_KV_HEADS
    dims = tl.arange(0, WIDTH)
    is_number = exists[:, None] & (dims < DIM)[None, :]
    place = heads + (token * (NUM_HEADS + 2 * NUM_KV_HEADS) + head[:, None]) * DIM + dims[None, :]
    x = tl.load(place, is_number, 0.0)
    if HAS_NORM:
        scales = tl.load(weight + head[:, None] * DIM + dims[None, :], is_turned[:, None] & (dims < DIM)[None, :], 0.0)
    if HAS_NORM and not NORM_IS_LAST:
        x = tl.where(is_turned[:, None], normalized(x, scales, epsilon, DIM), x)
    # A pair is two adjacent numbers.
    even, odd = tl.split(tl.reshape(x, (TILE_HEADS, WIDTH // 2, 2)))
    pairs = tl.arange(0, WIDTH // 2)
    is_rotated = is_turned[:, None] & (pairs < num_rotated_pairs)[None, :]
    rotation = rotations + (tl.load(positions + token) * num_rotated_pairs + pairs)[None, :] * 2
    cosine = tl.load(rotation, is_rotated, 1.0)
    sine = tl.load(rotation + 1, is_rotated, 0.0)
    turned_even = even.to(tl.float32) * cosine - odd.to(tl.float32) * sine
    turned_odd = even.to(tl.float32) * sine + odd.to(tl.float32) * cosine
    x = tl.reshape(tl.join(turned_even, turned_odd), (TILE_HEADS, WIDTH)).to(x.dtype)
    if HAS_NORM and NORM_IS_LAST:
        x = tl.where(is_turned[:, None], normalized(x, scales, epsilon, DIM), x)
    tl.store(place, x, is_number & (head < NUM_HEADS)[:, None])
    if IS_CLAMPED:
        wide = x.to(tl.float32)
        stored = tl.where(wide == wide, tl.minimum(tl.maximum(wide, least), most), wide).to(keys.dtype.element_ty)
    else:
        stored = x.to(keys.dtype.element_ty)
    slot = tl.load(slots + token) * NUM_KV_HEADS
    key_head, value_head = head - NUM_HEADS, head - NUM_HEADS - NUM_KV_HEADS
    is_key = (head >= NUM_HEADS) & is_turned
    is_value = exists & (head >= NUM_HEADS + NUM_KV_HEADS)
    tl.store(keys + (slot + key_head)[:, None] * DIM + dims[None, :], stored, is_number & is_key[:, None])
    tl.store(values + (slot + value_head)[:, None] * DIM + dims[None, :], stored, is_number & is_value[:, None])


@triton.jit
def normalized(x, scales, epsilon, DIM: tl.constexpr):
    wide = x.to(tl.float32)
    inverse = tl.rsqrt(tl.sum(wide * wide, 1) / DIM + epsilon)
    normed = (wide * inverse[:, None]).to(x.dtype)
    return (normed.to(tl.float32) * scales.to(tl.float32)).to(x.dtype)
