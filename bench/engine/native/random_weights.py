"""Random matrices in each format that is computed packed: their blocks, and the numbers that these mean.

Matrices of GGUF's formats are random blocks. Those of folders are random tensors as a quantizer stores them, which the
product reads; numbers have about the size of a model's weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from bench.engine.native.random_blocks import SCALES, numbers_of, random_blocks
from service.engine.models.checkpoint.packed.blocks import input_order
from service.engine.models.checkpoint.packed.packed_weight import PackedWeight, Stored
from service.engine.models.checkpoint.packed.weights import find_packing

Random: TypeAlias = np.random.Generator
Array: TypeAlias = NDArray[Any]
Tensors: TypeAlias = dict[str, Array]  # by the ends of their names

_NAME: Final = "layer"
_SIZE: Final = 0.07  # of weights
_GROUP: Final = 128  # columns that share a scale
_BLOCK: Final = 128  # rows and columns that share one
_LARGEST_E4M3, _LARGEST_E2M1 = 448, 6
_KINDS: Final = {"float32": "F32", "float16": "F16", "int32": "I32", "int8": "I8", "uint8": "U8"}


@dataclass(frozen=True, slots=True)
class Weight:
    """A matrix of the native step."""

    kind: str  # of its blocks
    blocks: NDArray[np.uint8]
    numbers: NDArray[np.float32]
    order: NDArray[np.int32] | None = None  # the inputs of the columns of the blocks


def _words(random: Random, rows: int, columns: int) -> Array:
    return random.integers(-(1 << 31), 1 << 31, (rows, columns), dtype=np.int32)


def _zeros(random: Random, rows: int, columns: int, bits: int) -> Array:
    """Return the words of zero points in the middle of the codes."""
    middle = 1 << (bits - 1)
    zeros = random.integers(middle - 2, middle + 2, (rows, columns * bits // 32, 32 // bits)).astype(np.uint32)
    words: Array = np.bitwise_or.reduce(zeros << np.arange(0, 32, bits, dtype=np.uint32), axis=-1).view(np.int32)
    return words


def _scales(random: Random, shape: tuple[int, int], bits: int) -> Array:
    """Return scales with which random codes, less zero points, have the size of weights."""
    return (random.uniform(0.5, 1.0, shape) * 3 * _SIZE / (1 << bits)).astype(np.float16)


def _gptq(rows: int, columns: int, random: Random, *, bits: int, is_ordered: bool = False) -> Tensors:
    groups = np.arange(columns) // _GROUP
    if is_ordered:  # the same order for all matrices with the same inputs, which form one product
        groups = np.random.default_rng(columns).permutation(groups)
    return {
        ".qweight": _words(random, columns * bits // 32, rows),
        ".qzeros": _zeros(random, columns // _GROUP, rows, bits),
        ".scales": _scales(random, (columns // _GROUP, rows), bits),
        ".g_idx": groups.astype(np.int32),
    }


def _awq(rows: int, columns: int, random: Random, *, bits: int) -> Tensors:
    return {
        ".qweight": _words(random, columns, rows * bits // 32),
        ".qzeros": _zeros(random, columns // _GROUP, rows, bits),
        ".scales": _scales(random, (columns // _GROUP, rows), bits),
    }


def _int8(rows: int, columns: int, random: Random) -> Tensors:
    codes = random.integers(-127, 128, (rows, columns), dtype=np.int8)
    return {".weight": codes, ".weight_scale": _scales(random, (rows, 1), 8).astype(np.float32)}


def _int4(rows: int, columns: int, random: Random) -> Tensors:
    return {
        ".weight_packed": _words(random, rows, columns // 8),
        ".weight_scale": _scales(random, (rows, columns // _GROUP), 4),
        ".weight_zero_point": np.ascontiguousarray(_zeros(random, columns // _GROUP, rows, 4).T),
        ".weight_shape": np.array([rows, columns], np.int32),
    }


def _float8(rows: int, columns: int, random: Random, *, size: tuple[int, int]) -> Tensors:
    """Return e4m3 numbers with a scale for each `size` of rows and columns; 0 is all of them."""
    numbers = random.normal(0, _SIZE, (rows, columns))
    height, width = size[0] or rows, size[1] or columns
    parts = np.abs(numbers).reshape(rows // height, height, columns // width, width)
    scales = (parts.max((1, 3)) / _LARGEST_E4M3).astype(np.float32)
    codes = _e4m3(numbers / scales.repeat(height, 0).repeat(width, 1))
    return {".weight": codes, ".weight_scale": scales if size[0] else scales.reshape(1)}


def _nvfp4(rows: int, columns: int, random: Random) -> Tensors:
    scales = random.uniform(0.5, 1.0, (rows, columns // 16)) * _LARGEST_E4M3
    return {
        ".weight": random.integers(0, 256, (rows, columns // 2), dtype=np.uint8),
        ".weight_scale": _e4m3(scales),
        ".weight_scale_2": np.array([2 * _SIZE / (_LARGEST_E2M1 * _LARGEST_E4M3)], np.float32),
    }


def _mxfp4(rows: int, columns: int, random: Random) -> Tensors:
    return {
        "_blocks": random.integers(0, 256, (1, rows, columns // 32, 16), dtype=np.uint8),
        "_scales": random.integers(120, 123, (1, rows, columns // 32), dtype=np.uint8),
    }


def _bitsandbytes(rows: int, columns: int, random: Random) -> Tensors:
    codes = random.integers(-127, 128, (rows, columns), dtype=np.int8)
    return {".weight": codes, ".SCB": (random.uniform(1.5, 3, rows) * _SIZE).astype(np.float32)}


def _e4m3(numbers: Array) -> Array:
    codes: Array = torch.from_numpy(numbers.astype(np.float32)).to(torch.float8_e4m3fn).view(torch.uint8).numpy()
    return codes


@dataclass(frozen=True, slots=True)
class FolderFormat:
    """A format of folders: a matrix' tensors, given its rows and columns, and the configuration."""

    tensors: Callable[[int, int, Random], Tensors]
    quantization: Mapping[str, Any]
    e4m3: tuple[str, ...] = ()  # the ends of the names of tensors in this type


_PACKED: Final = {
    "quant_method": "compressed-tensors",
    "format": "pack-quantized",
    "config_groups": {"group_0": {"weights": {"num_bits": 4}}},
}
FOLDERS: Final[dict[str, FolderFormat]] = {
    **{
        f"GPTQ, {bits} bits{', act-order' * is_ordered}": FolderFormat(
            partial(_gptq, bits=bits, is_ordered=is_ordered), {"quant_method": "gptq", "bits": bits}
        )
        for bits in (4, 8)
        for is_ordered in (False, True)
    },
    **{
        f"AWQ, {bits} bits": FolderFormat(partial(_awq, bits=bits), {"quant_method": "awq", "bits": bits})
        for bits in (4, 8)
    },
    "compressed-tensors, int8": FolderFormat(_int8, {"quant_method": "compressed-tensors", "format": "int-quantized"}),
    "compressed-tensors, int4": FolderFormat(_int4, _PACKED),
    "FP8, a scale": FolderFormat(partial(_float8, size=(0, 0)), {"quant_method": "fp8"}, (".weight",)),
    "FP8, a scale a row": FolderFormat(partial(_float8, size=(1, 0)), {"quant_method": "fbgemm_fp8"}, (".weight",)),
    "FP8, a scale a block": FolderFormat(
        partial(_float8, size=(_BLOCK, _BLOCK)),
        {"quant_method": "fp8", "weight_block_size": [_BLOCK, _BLOCK]},
        (".weight",),
    ),
    "NVFP4": FolderFormat(_nvfp4, {"quant_method": "modelopt", "quant_algo": "NVFP4"}, (".weight_scale",)),
    "MXFP4 of folders": FolderFormat(_mxfp4, {"quant_method": "mxfp4"}),
    "bitsandbytes, 8 bits": FolderFormat(_bitsandbytes, {"quant_method": "bitsandbytes", "load_in_8bit": True}),
}
_NUMBERS: Final = {"F16": "float16", "BF16": "bfloat16"}
WHOLE: Final = (*(kind.upper() for kind in SCALES), *_NUMBERS)  # formats that all matrices of a file may have
FORMATS: Final = (*WHOLE, *FOLDERS)


def random_weight(name: str, rows: int, columns: int, random: Random) -> Weight:
    """Return a random matrix in a format."""
    if name in FOLDERS:
        return _of_folder(FOLDERS[name], rows, columns, random)
    if name in _NUMBERS:
        drawn = torch.from_numpy(random.normal(0, _SIZE, (rows, columns))).to(getattr(torch, _NUMBERS[name]))
        return Weight(_NUMBERS[name], drawn.view(torch.uint8).numpy(), drawn.float().numpy())
    blocks = random_blocks(name.lower(), rows, columns, random)
    return Weight(name.lower(), blocks, numbers_of(name.lower(), blocks))


def _of_folder(folder: FolderFormat, rows: int, columns: int, random: Random) -> Weight:
    """Read a matrix as the product does."""
    drawn = folder.tensors(rows, columns, random)
    stored = {
        f"{_NAME}{end}": Stored("F8_E4M3" if end in folder.e4m3 else _KINDS[array.dtype.name], array.shape)
        for end, array in drawn.items()
    }
    (weight,) = find_packing(stored, folder.quantization, lambda name: drawn[name.removeprefix(_NAME)]).weights
    tensors = {role: drawn[name.removeprefix(_NAME)] for role, name in weight.parts.items()}
    blocks, numbers = _both(weight, tensors)
    order = input_order(tensors["groups"].astype(np.int64), weight.num_groups) if "groups" in tensors else None
    return Weight(str(weight.block_kind), blocks, numbers, order)


def _both(weight: PackedWeight, tensors: Mapping[str, Array]) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    if weight.blocks is None:
        raise ValueError(f"{weight.name} has no blocks")
    blocks, numbers = weight.blocks(tensors), weight.dequantize(tensors)
    if blocks.ndim == numbers.ndim == 3:  # of one expert, whose numbers are [inputs, outputs]
        return blocks[0], np.ascontiguousarray(numbers[0].T)
    return blocks, np.ascontiguousarray(numbers)
