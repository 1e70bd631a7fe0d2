"""Packed weights as blocks of codes with a scale and a zero point, which the native step multiplies as they are.

A block is, for the columns that share a scale, four bytes that begin with the scale, the code that means 0, three
unused bytes, and a byte for each code. All functions are pure functions of arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

_SIZES: Final = (256, 128, 64, 32, 16)  # of blocks, in columns
_MOST_ZERO: Final = 255
_TYPES: Final = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


@dataclass(frozen=True, slots=True)
class Codes:
    """A weight's unsigned codes [outputs, inputs], and scales and zero points [outputs, groups of inputs].

    A code q means scale * (q - zero point). `groups` are the groups of the inputs.
    """

    codes: Array
    scales: Array
    zeros: Array
    groups: npt.NDArray[np.int64]

    @property
    def numbers(self) -> npt.NDArray[np.float32]:
        """The weight as float32, [outputs, inputs]."""
        found: npt.NDArray[np.float32] = self.codes.astype(np.float32, order="C")
        found -= self.zeros.astype(np.float32)[:, self.groups]
        found *= self.scales.astype(np.float32)[:, self.groups]
        return found


def groups_in_order(num_inputs: int, num_groups: int) -> npt.NDArray[np.int64]:
    """Return the groups of inputs in groups of equal size."""
    return np.arange(num_inputs) // (num_inputs // num_groups)


def input_order(groups: npt.NDArray[np.int64], num_groups: int) -> npt.NDArray[np.int32] | None:
    """Return the inputs in the order of their groups, or None if that is their own order.

    Raise ValueError if groups differ in size.
    """
    if (np.bincount(groups, minlength=num_groups) != len(groups) // num_groups).any():
        raise ValueError("the groups of the inputs differ in size")
    if (np.diff(groups) >= 0).all():
        return None
    return np.argsort(groups, kind="stable").astype(np.int32)


def block_size_of(num_inputs: int, num_groups: int) -> int | None:
    """Return the columns of a block, which divide those of a group; None if the step has no such block."""
    if num_groups < 1 or num_inputs % num_groups:
        return None
    group = num_inputs // num_groups
    return next((size for size in _SIZES if group % size == 0), None)


def kind_of(bits: int, block_size: int, scale_type: str) -> str:
    """Return the native step's name of blocks; `scale_type` is the type of the stored scales."""
    return f"u{bits}.g{block_size}.{_TYPES[scale_type]}"


def to_blocks(codes: Codes, block_size: int, scale_type: str) -> npt.NDArray[np.uint8]:
    """Return rows of blocks, uint8 [outputs, bytes], whose inputs are in the order of their groups.

    Raise ValueError for codes that have no blocks.
    """
    num_outputs, num_inputs = codes.codes.shape
    num_groups = codes.scales.shape[1]
    order = input_order(codes.groups, num_groups)
    ordered = codes.codes if order is None else codes.codes[:, order]
    if codes.zeros.size and not 0 <= codes.zeros.min() <= codes.zeros.max() <= _MOST_ZERO:
        raise ValueError("a zero point is not a byte")
    num_blocks = num_inputs // block_size
    repeats = num_blocks // num_groups
    blocks = np.zeros((num_outputs, num_blocks, 8 + block_size), np.uint8)
    stored = _bits_of(codes.scales, scale_type)
    blocks[:, :, : stored.shape[-1]] = stored.repeat(repeats, axis=1)
    blocks[:, :, 4] = codes.zeros.astype(np.uint8).repeat(repeats, axis=1)
    blocks[:, :, 8:] = ordered.reshape(num_outputs, num_blocks, block_size)
    return blocks.reshape(num_outputs, -1)


def _bits_of(scales: Array, scale_type: str) -> npt.NDArray[np.uint8]:
    """Return the bytes of scales in their stored type, uint8 [outputs, groups, bytes]."""
    if scale_type == "BF16":
        words = (np.ascontiguousarray(scales, np.float32).view(np.uint32) >> 16).astype("<u2")
    else:
        words = np.ascontiguousarray(scales, np.float16 if scale_type == "F16" else np.float32)
    return words.view(np.uint8).reshape(*scales.shape, -1)
