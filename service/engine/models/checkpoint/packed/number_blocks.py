"""Convert FP8, MXFP4, NVFP4 and bitsandbytes' 4-bit weights to the blocks that the native step multiplies directly.

A block has the columns that share a scale: first the float32 scale, then the codes. A block of MXFP4 begins with an
exponent of one byte instead; a block of NVFP4 with the float32 scale of the matrix, its own e4m3 scale and three
unused bytes. All functions are pure functions of arrays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from service.engine.models.checkpoint.packed.blocks import Array, block_size_of
from service.engine.models.checkpoint.packed.dequantize import expand_scales, nvfp4_scale, scales_of_codes

_E4M3_NAN: Final = 0x7F  # without the sign bit
_LARGEST: Final = 256  # columns of a block
_NF4: Final = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip
_FP4: Final = tuple(sign * each / 12 for sign in (1, -1) for each in (0, 0.0625, 8, 12, 4, 6, 2, 3))
# The numbers of bitsandbytes' four-bit codes.
TABLES: Final = {"nf4": np.array(_NF4, np.float32), "fp4": np.array(_FP4, np.float32)}


def float8_block_size(
    kind: str, shape: Sequence[int], scales: Sequence[int], block: Sequence[int] | None
) -> int | None:
    """Return the number of columns of a block of FP8 weights, or None if the native step supports no such block.

    `scales` is the shape of the scales; `block` the rows and columns that share one, if the configuration has them.
    """
    if kind != "F8_E4M3" or len(shape) != 2:
        return None
    num_inputs = shape[1]
    if math.prod(scales) == 1 or len(scales) == 1 or scales[-1] == 1:
        return block_size_of(num_inputs, 1)
    group = block[1] if block is not None else num_inputs // scales[-1]
    return block_size_of(num_inputs, num_inputs // group) if num_inputs % group == 0 else None


def float8_blocks(tensors: Mapping[str, Array], *, block: list[int] | None, size: int) -> npt.NDArray[np.uint8]:
    """Return rows of blocks of e4m3 numbers. Raise ValueError if a number is NaN."""
    codes = np.ascontiguousarray(tensors["codes"]).view(np.uint8)
    if ((codes & _E4M3_NAN) == _E4M3_NAN).any():
        raise ValueError("a weight is NaN")
    scales = expand_scales(tensors["scales"].astype(np.float32), codes.shape, block)
    each = np.broadcast_to(scales, codes.shape)[:, ::size]
    return _blocks(each, codes, size)


def four_bit_block_size(state: str, shape: Sequence[int], values: Array, block: int) -> int | None:
    """Return the number of columns of a block of bitsandbytes' 4-bit weights, or None if the native step supports none.

    `block` weights share a scale; `values` are the numbers of the 16 codes.
    """
    if len(shape) != 2 or not np.array_equal(values.astype(np.float32).reshape(-1), TABLES[state]):
        return None
    size = math.gcd(shape[1], block)
    return block_size_of(size, 1)


def four_bit_blocks(
    tensors: Mapping[str, Array], *, quant_state: Mapping[str, Any], size: int
) -> npt.NDArray[np.uint8]:
    """Return rows of blocks of bitsandbytes' 4-bit weights. The lower half of a byte is the first of two codes."""
    num_outputs, num_inputs = quant_state["shape"]
    codes = tensors["codes"].reshape(num_outputs, num_inputs // 2)
    scales = scales_of_codes(tensors, quant_state).repeat(int(quant_state["blocksize"]) // size)
    each = scales[: num_outputs * num_inputs // size].reshape(num_outputs, -1)
    return _blocks(each, (codes << 4 | codes >> 4).astype(np.uint8), size // 2)


def mxfp4_blocks(tensors: Mapping[str, Array]) -> npt.NDArray[np.uint8]:
    """Return the blocks of all experts, uint8 [experts, rows, bytes]. Lower halves of bytes are the first 16 codes."""
    codes, exponents = tensors["codes"], tensors["scales"]
    each = np.stack([codes & 15, codes >> 4], axis=-1).reshape(*codes.shape[:-1], -1)  # [experts, rows, groups, 32]
    packed = each[..., :16] | each[..., 16:] << 4
    blocks = np.concatenate([exponents[..., None], packed], axis=-1)
    return np.ascontiguousarray(blocks.reshape(*codes.shape[:2], -1).astype(np.uint8))


def nvfp4_blocks(tensors: Mapping[str, Array]) -> npt.NDArray[np.uint8]:
    """Return rows of NVFP4 blocks of 16 weights. Raise ValueError if a scale is NaN."""
    own = np.ascontiguousarray(tensors["scales"]).view(np.uint8)
    if ((own & _E4M3_NAN) == _E4M3_NAN).any():
        raise ValueError("a scale is NaN")
    blocks = np.zeros((*own.shape, 16), np.uint8)
    blocks[:, :, :4] = np.array([nvfp4_scale(tensors)], np.float32).view(np.uint8)
    blocks[:, :, 4] = own
    blocks[:, :, 8:] = tensors["codes"].reshape(*own.shape, 8)
    return blocks.reshape(len(own), -1)


def _blocks(scales: Array, codes: npt.NDArray[np.uint8], num_bytes: int) -> npt.NDArray[np.uint8]:
    """Return rows of blocks that consist of a float32 scale and `num_bytes` bytes of codes."""
    stored = np.ascontiguousarray(scales, np.float32).view(np.uint8).reshape(*scales.shape, 4)
    blocks = np.concatenate([stored, codes.reshape(*scales.shape, num_bytes)], axis=-1)
    return blocks.reshape(len(codes), -1)
