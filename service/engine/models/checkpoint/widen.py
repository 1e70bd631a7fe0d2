"""Unpack weights to numbers, by packing method. Pure functions of arrays.

Each takes a weight's stored tensors by their roles and returns float32, `[outputs, inputs]` unless it says otherwise.
Sources are the methods' own descriptions: AutoGPTQ's and AutoAWQ's layouts, compressed-tensors' formats, the OCP
microscaling specification, and bitsandbytes' quantisation state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float32]

_WORD: Final = 32
_AWQ_ORDER: Final = (0, 2, 4, 6, 1, 3, 5, 7)  # which column of eight each nibble of a word holds, the lowest first
_FP4: Final = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
_NESTED_BLOCK: Final = 256  # scales that share a scale of their own
_FULL: Final = 127.0  # what a row's largest number is stored as


def widen_gptq(tensors: Mapping[str, Array], *, bits: int, less: int) -> Floats:
    """Codes packed along the inputs, zero points along the outputs, less `less`; each input belongs to a group."""
    codes = _unpacked(tensors["codes"].T, bits).astype(np.float32)  # [outputs, inputs]
    zeros = _unpacked(tensors["zeros"], bits).astype(np.float32) + less  # [groups, outputs]
    scales = tensors["scales"].astype(np.float32)
    num_inputs = codes.shape[1]
    if "groups" in tensors:
        groups = tensors["groups"].astype(np.int64)
    else:
        groups = np.arange(num_inputs) // (num_inputs // len(scales))
    codes -= zeros.T[:, groups]
    codes *= scales.T[:, groups]
    return codes


def widen_awq(tensors: Mapping[str, Array], *, bits: int) -> Floats:
    """Codes and zero points packed along the outputs, in an order of their own; inputs in equal groups."""
    codes = _in_order(_unpacked(tensors["codes"], bits), bits).astype(np.float32)  # [inputs, outputs]
    zeros = _in_order(_unpacked(tensors["zeros"], bits), bits).astype(np.float32)  # [groups, outputs]
    scales = tensors["scales"].astype(np.float32)
    size = len(codes) // len(scales)
    codes -= zeros.repeat(size, axis=0)
    codes *= scales.repeat(size, axis=0)
    return np.ascontiguousarray(codes.T)


def widen_scaled(tensors: Mapping[str, Array], *, kind: str, block: list[int] | None) -> Floats:
    """Numbers of one byte, times a scale for all, one a row, one a group of columns, or one a `block` of both."""
    codes = tensors["codes"]
    values = codes.astype(np.float32) if kind == "I8" else _FLOATS_OF_8_BITS[kind][codes.view(np.uint8)]
    if "zeros" in tensors:
        values -= _spread(tensors["zeros"].astype(np.float32), values.shape, block)
    values *= _spread(tensors["scales"].astype(np.float32), values.shape, block)
    return values


def widen_packed_rows(tensors: Mapping[str, Array], *, bits: int, num_inputs: int) -> Floats:
    """Codes above their middle, packed along the inputs of each row; scales and zero points by group of inputs."""
    middle = 1 << (bits - 1)
    values = _unpacked(tensors["codes"], bits)[:, :num_inputs].astype(np.float32) - middle
    scales = tensors["scales"].astype(np.float32)
    if "groups" in tensors and (tensors["groups"] >= 0).all():
        groups = tensors["groups"].astype(np.int64)
    else:
        groups = np.arange(num_inputs) // (num_inputs // scales.shape[-1])
    if "zeros" in tensors:
        zeros = _unpacked(tensors["zeros"].T, bits)[:, : len(values)].T.astype(np.float32) - middle
        values -= zeros[:, groups]
    values *= scales[:, groups]
    return values


def widen_int8_rows(tensors: Mapping[str, Array]) -> Floats:
    """Rows whose largest number is stored as 127; the scales are those largest numbers."""
    return tensors["codes"].astype(np.float32) * (tensors["scales"].astype(np.float32)[:, None] / _FULL)


def widen_codes(tensors: Mapping[str, Array], *, said: Mapping[str, Any]) -> Floats:
    """Two codes a byte, the upper half first, of 16 listed values; a scale a block, which may be packed again."""
    codes = tensors["codes"].reshape(-1)
    values = tensors["values"].astype(np.float32)
    unpacked = np.stack([values[codes >> 4], values[codes & 15]], axis=-1).reshape(-1)
    scales = tensors["scales"]
    if "nested_scales" in tensors:
        size = int(said.get("nested_blocksize", _NESTED_BLOCK))
        outer = tensors["nested_scales"].astype(np.float32).repeat(size)[: scales.size]
        scales = tensors["nested_values"].astype(np.float32)[scales] * outer + np.float32(said["nested_offset"])
    scales = scales.astype(np.float32).repeat(int(said["blocksize"]))
    shape = tuple(said["shape"])
    num = int(np.prod(shape))
    found: Floats = (unpacked[:num] * scales[:num]).reshape(shape)
    return found


def widen_mxfp4(tensors: Mapping[str, Array]) -> Floats:
    """Experts' weights, `[experts, inputs, outputs]`: two codes a byte, the lower first, and a power of two a block."""
    codes, exponents = tensors["codes"], tensors["scales"].astype(np.int32) - 127
    values = np.stack([_signed_fp4(codes & 15), _signed_fp4(codes >> 4)], axis=-1)
    values = np.ldexp(values.reshape(*codes.shape[:-1], -1), exponents[..., None])
    return np.ascontiguousarray(values.reshape(*codes.shape[:2], -1).swapaxes(1, 2))


def _signed_fp4(codes: Array) -> Floats:
    signed: Floats = np.concatenate([_FP4, -_FP4])[codes]
    return signed


def _unpacked(words: Array, bits: int) -> Array:
    """`[rows, words]` of 32 bits as `[rows, numbers]` without sign, the lowest bits first."""
    shifts = np.arange(0, _WORD, bits, dtype=np.uint32)
    unsigned = np.ascontiguousarray(words).view(np.uint32)
    return ((unsigned[..., None] >> shifts) & np.uint32((1 << bits) - 1)).reshape(len(words), -1)


def _in_order(numbers: Array, bits: int) -> Array:
    """Columns as they were before AWQ's interleaving, which is there for 4 bits."""
    if bits != 4:
        return numbers
    eights = numbers.reshape(len(numbers), -1, len(_AWQ_ORDER))
    found = np.empty_like(eights)
    found[..., list(_AWQ_ORDER)] = eights
    return found.reshape(len(numbers), -1)


def _spread(factors: Floats, shape: tuple[int, ...], block: list[int] | None) -> Floats:
    """One a number, or what broadcasts to that."""
    if factors.size == 1:
        return factors.reshape((1,) * len(shape))
    if block is not None and factors.ndim == len(shape):
        rows, columns = block
        return factors.repeat(rows, axis=-2).repeat(columns, axis=-1)[..., : shape[-2], : shape[-1]]
    if factors.ndim < len(shape):
        return factors[..., None]
    if factors.shape[-1] not in {1, shape[-1]}:
        return factors.repeat(shape[-1] // factors.shape[-1], axis=-1)
    return factors


def _floats_of_8_bits(num_exponent_bits: int, *, has_infinity: bool) -> Floats:
    """What each of 256 bytes stands for: a sign, an exponent, and a fraction of the other bits."""
    num_fraction_bits = 7 - num_exponent_bits
    codes = np.arange(256)
    exponents = (codes >> num_fraction_bits) & ((1 << num_exponent_bits) - 1)
    fractions = codes & ((1 << num_fraction_bits) - 1)
    bias = (1 << (num_exponent_bits - 1)) - 1
    is_normal = exponents > 0
    values = np.ldexp(is_normal + fractions / (1 << num_fraction_bits), np.where(is_normal, exponents, 1) - bias)
    is_top = exponents == (1 << num_exponent_bits) - 1
    if has_infinity:
        values = np.where(is_top, np.where(fractions == 0, np.inf, np.nan), values)
    else:
        values = np.where((codes & 0x7F) == 0x7F, np.nan, values)
    signs = np.where(codes & 0x80, -1.0, 1.0)
    return (signs * values).astype(np.float32)


_FLOATS_OF_8_BITS: Final = {
    "F8_E4M3": _floats_of_8_bits(4, has_infinity=False),
    "F8_E5M2": _floats_of_8_bits(5, has_infinity=True),
}
