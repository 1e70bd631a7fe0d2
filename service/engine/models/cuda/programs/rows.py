"""Programs over the rows of a step."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def rms_norm(x, weight, result, stride, width, epsilon, WIDTH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, WIDTH)
    exists = columns < width
    given = tl.load(x + row * stride + columns, exists, 0.0)
    wide = given.to(tl.float32)
    inverse = tl.rsqrt(tl.sum(wide * wide, 0) / width + epsilon)
    normed = (wide * inverse).to(given.dtype)
    scaled = normed.to(tl.float32) * tl.load(weight + columns, exists, 0.0).to(tl.float32)
    tl.store(result + row * width + columns, scaled.to(given.dtype), exists)


@triton.jit
def activate(x, KIND: tl.constexpr):
    """Return an activation function, by its number in `ACTIVATIONS`, of float32 numbers."""
    if KIND == 0:
        return x * tl.sigmoid(x)
    if KIND == 1:
        return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    if KIND == 2:
        inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
        return x * tl.sigmoid(2.0 * inner)
    if KIND == 3:
        return tl.maximum(x, 0.0)
    positive = tl.maximum(x, 0.0)
    return positive * positive


@triton.jit
def gated(values, result, width, KIND: tl.constexpr, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * TILE + tl.arange(0, TILE)
    exists = columns < width
    gate = tl.load(values + row * 2 * width + columns, exists, 0.0)
    up = tl.load(values + row * 2 * width + width + columns, exists, 0.0)
    activated = activate(gate.to(tl.float32), KIND).to(gate.dtype)
    product = activated.to(tl.float32) * up.to(tl.float32)
    tl.store(result + row * width + columns, product.to(gate.dtype), exists)
