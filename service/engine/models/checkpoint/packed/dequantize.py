"""Dequantize packed weights, by packing method. All functions are pure functions of arrays.

Each takes a weight's stored tensors by role and returns codes, or float32 `[outputs, inputs]`. The
layouts follow the methods' documentation: AutoGPTQ, AutoAWQ, compressed-tensors, the OCP microscaling specification
and bitsandbytes' quantization state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from service.engine.models.checkpoint.packed.blocks import Codes, groups_in_order

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float32]

NVFP4_GROUP: Final = 16  # codes with a scale

_BYTE: Final = 8
_AWQ_ORDER: Final = (0, 2, 4, 6, 1, 3, 5, 7)  # the column of eight in each nibble of a word, lowest nibble first
_FP4: Final = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
_NESTED_BLOCK: Final = 256  # the number of scales that share a nested scale
_HALF: Final = 128  # the offset of signed bytes
_FULL: Final = np.float32(127)  # the stored value of a row's largest number


def gptq_codes(tensors: Mapping[str, Array], *, bits: int, zero_point_offset: int) -> Codes:
    """Return the codes of GPTQ: packed along inputs, zero points along outputs, inputs in groups.

    `zero_point_offset` was subtracted from the zero points when they were stored, modulo the number of codes.
    """
    codes = _unpacked(tensors["codes"].T, bits)  # [outputs, inputs]
    zeros = _unpacked(tensors["zeros"], bits).astype(np.int32) + zero_point_offset  # [groups, outputs]
    zeros &= (1 << bits) - 1
    scales = tensors["scales"]
    given = tensors["groups"].astype(np.int64) if "groups" in tensors else None
    groups = groups_in_order(codes.shape[1], len(scales)) if given is None else given
    return Codes(codes, scales.T, zeros.T, groups)


def awq_codes(tensors: Mapping[str, Array], *, bits: int) -> Codes:
    """Return the codes of AWQ: packed along outputs in AWQ's order, as are zero points, inputs in groups."""
    codes = _in_order(_unpacked(tensors["codes"], bits), bits)  # [inputs, outputs]
    zeros = _in_order(_unpacked(tensors["zeros"], bits), bits)  # [groups, outputs]
    scales = tensors["scales"]
    return Codes(codes.T, scales.T, zeros.T, groups_in_order(len(codes), len(scales)))


def dequantize_scaled(tensors: Mapping[str, Array], *, kind: str, block: list[int] | None) -> Floats:
    """Dequantize 8-bit numbers with one scale for all, per row, per group of columns, or per `block` of both."""
    codes = tensors["codes"]
    values = codes.astype(np.float32) if kind == "I8" else _FLOATS_OF_8_BITS[kind][codes.view(np.uint8)]
    if "zeros" in tensors:
        values -= expand_scales(tensors["zeros"].astype(np.float32), values.shape, block)
    values *= expand_scales(tensors["scales"].astype(np.float32), values.shape, block)
    return values


def byte_codes(tensors: Mapping[str, Array]) -> Codes:
    """Return the codes of int8 numbers with a scale per row or per row and group of columns."""
    codes = tensors["codes"]
    scales = tensors["scales"].reshape(len(codes), -1)
    zeros = tensors["zeros"].astype(np.int32).reshape(scales.shape) if "zeros" in tensors else 0
    offset = np.full(scales.shape, _HALF, np.int32) + zeros
    unsigned = (codes.view(np.uint8) ^ np.uint8(_HALF)).astype(np.uint8)
    return Codes(unsigned, scales, offset, groups_in_order(codes.shape[1], scales.shape[1]))


def row_codes(tensors: Mapping[str, Array], *, bits: int, num_inputs: int) -> Codes:
    """Return codes with an offset, packed along each row's inputs; scales and zero points per group of inputs."""
    codes = _unpacked(tensors["codes"], bits)[:, :num_inputs]
    scales = tensors["scales"]
    given = tensors.get("groups")
    if given is not None and (given >= 0).all():
        groups = given.astype(np.int64)
    else:
        groups = groups_in_order(num_inputs, scales.shape[-1])
    if "zeros" in tensors:
        zeros = _unpacked(tensors["zeros"].T, bits)[:, : len(codes)].T
    else:
        zeros = np.full(scales.shape, 1 << (bits - 1))
    return Codes(codes, scales, zeros, groups)


def int8_row_codes(tensors: Mapping[str, Array]) -> Codes:
    """Return the codes of int8 rows whose largest number is stored as 127; the scales are those largest numbers."""
    return byte_codes({"codes": tensors["codes"], "scales": tensors["scales"].astype(np.float32) / _FULL})


def dequantize_codes(tensors: Mapping[str, Array], *, quant_state: Mapping[str, Any]) -> Floats:
    """Dequantize bitsandbytes' 4-bit codes: two per byte, upper half first, 16 values, a scale per block.

    The scales may be quantized again.
    """
    codes = tensors["codes"].reshape(-1)
    values = tensors["values"].astype(np.float32)
    unpacked = np.stack([values[codes >> 4], values[codes & 15]], axis=-1).reshape(-1)
    scales = scales_of_codes(tensors, quant_state).repeat(int(quant_state["blocksize"]))
    shape = tuple(quant_state["shape"])
    num = int(np.prod(shape))
    found: Floats = (unpacked[:num] * scales[:num]).reshape(shape)
    return found


def scales_of_codes(tensors: Mapping[str, Array], quant_state: Mapping[str, Any]) -> Floats:
    """Return the scale of each block of bitsandbytes' 4-bit codes, which may be quantized as well."""
    scales = tensors["scales"]
    if "nested_scales" in tensors:
        size = int(quant_state.get("nested_blocksize", _NESTED_BLOCK))
        outer = tensors["nested_scales"].astype(np.float32).repeat(size)[: scales.size]
        scales = tensors["nested_values"].astype(np.float32)[scales] * outer + np.float32(quant_state["nested_offset"])
    found: Floats = scales.astype(np.float32).reshape(-1)
    return found


def dequantize_mxfp4(tensors: Mapping[str, Array]) -> Floats:
    """Dequantize MXFP4 experts to `[experts, inputs, outputs]`: two codes per byte, lower half first."""
    codes, exponents = tensors["codes"], tensors["scales"].astype(np.int32) - 127
    values = np.stack([_signed_fp4(codes & 15), _signed_fp4(codes >> 4)], axis=-1)
    values = np.ldexp(values.reshape(*codes.shape[:-1], -1), exponents[..., None])
    return np.ascontiguousarray(values.reshape(*codes.shape[:2], -1).swapaxes(1, 2))


def dequantize_nvfp4(tensors: Mapping[str, Array]) -> Floats:
    """Dequantize NVFP4: two codes per byte, lower half first, an e4m3 scale per 16 codes, and one of the matrix."""
    codes = tensors["codes"]
    values = np.stack([_signed_fp4(codes & 15), _signed_fp4(codes >> 4)], axis=-1).reshape(len(codes), -1, NVFP4_GROUP)
    scales = _FLOATS_OF_8_BITS["F8_E4M3"][tensors["scales"].view(np.uint8)] * nvfp4_scale(tensors)
    found: Floats = (values * scales[..., None]).reshape(len(codes), -1)
    return found


def nvfp4_scale(tensors: Mapping[str, Array]) -> np.float32:
    """Return a matrix' scale, or the reciprocal of its divisor. Raise ValueError unless it has exactly one."""
    role = "scale" if "scale" in tensors else "divisor"
    numbers = tensors[role].astype(np.float32).reshape(-1)
    if len(numbers) != 1 or not np.isfinite(numbers[0]) or numbers[0] == 0:
        raise ValueError("its matrix has no scale of one finite number")
    number = np.float32(numbers[0])
    return number if role == "scale" else np.float32(1) / number


def _signed_fp4(codes: Array) -> Floats:
    signed: Floats = np.concatenate([_FP4, -_FP4])[codes]
    return signed


def _unpacked(words: Array, bits: int) -> npt.NDArray[np.uint8]:
    """Unpack 32-bit `[rows, words]` to `[rows, numbers]` of 2, 4 or 8 bits, lowest bits first."""
    stored = np.ascontiguousarray(words).view(np.uint8)
    if bits == _BYTE:
        return stored
    per_byte = _BYTE // bits
    spread = stored.astype(f"<u{per_byte}")  # a byte for each number of a stored byte
    found = spread.copy()
    for index in range(1, per_byte):
        found |= spread << (_BYTE - bits) * index
    found &= int.from_bytes([(1 << bits) - 1] * per_byte, "little")
    return found.view(np.uint8)


def _in_order(numbers: Array, bits: int) -> Array:
    """Reverse AWQ's interleaving of columns, which exists for 4 bits only."""
    if bits != 4:
        return numbers
    eights = numbers.reshape(len(numbers), -1, len(_AWQ_ORDER))
    found = np.empty_like(eights)
    found[..., list(_AWQ_ORDER)] = eights
    return found.reshape(len(numbers), -1)


def expand_scales(factors: Floats, shape: tuple[int, ...], block: list[int] | None) -> Floats:
    """Expand scales or zero points so that they broadcast to the shape of the weight."""
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
    """Return the value of each of 256 bytes with a sign, an exponent and a fraction of the other bits."""
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
