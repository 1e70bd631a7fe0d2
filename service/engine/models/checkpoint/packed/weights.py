"""Packed (quantized) weights of a checkpoint, and the tensors that each is made of.

A configuration's `quantization_config` names the method. With every method, a weight is read by its usual name and
dequantized when it is read. Scales of activations and caches are ignored, because neither is quantized here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from service.engine.models.checkpoint.packed.blocks import Codes, block_size_of, kind_of, to_blocks
from service.engine.models.checkpoint.packed.dequantize import (
    NVFP4_GROUP,
    Array,
    awq_codes,
    byte_codes,
    dequantize_codes,
    dequantize_mxfp4,
    dequantize_nvfp4,
    dequantize_scaled,
    gptq_codes,
    int8_row_codes,
    row_codes,
)
from service.engine.models.checkpoint.packed.number_blocks import (
    float8_block_size,
    float8_blocks,
    four_bit_block_size,
    four_bit_blocks,
    mxfp4_blocks,
    nvfp4_blocks,
)

Read: TypeAlias = Callable[[str], Array]  # a stored tensor by its name

_BITS: Final = (2, 4, 8)  # of a packed number; 3-bit numbers would straddle words
_WORD: Final = 32
_IGNORED: Final = (
    ".input_scale",
    ".activation_scale",
    ".input_zero_point",
    ".output_scale",
    ".k_scale",
    ".v_scale",
    ".q_scale",
    ".kv_scale",
    ".input_global_scale",
    ".k_zero_point",
    ".v_zero_point",
    "_scale_ub",
)
_STATES: Final = ("nf4", "fp4")
_BYTES: Final = ("F8_E4M3", "F8_E5M2", "I8")


class Stored(NamedTuple):
    """A tensor's type and shape, from its file's header."""

    kind: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PackedWeight:
    """A packed weight: its dequantized shape, and the names of its stored tensors by role."""

    name: str
    shape: tuple[int, ...]
    parts: Mapping[str, str]
    dequantize: Callable[[Mapping[str, Array]], npt.NDArray[np.float32]]
    block_kind: str | None = None  # the native step's name of its blocks; None: it has none
    blocks: Callable[[Mapping[str, Array]], npt.NDArray[np.uint8]] | None = None  # its rows in blocks
    num_groups: int = 0  # of inputs, of a weight with a tensor of the inputs' groups
    is_sliceable: bool = False  # all stored tensors have the weight's first axis, and slices of it are independent


class Packing(NamedTuple):
    """The packed weights of a checkpoint, and the names of ignored tensors."""

    weights: list[PackedWeight]
    ignored: list[str]


def packing_unsupported_reason(config: Mapping[str, Any]) -> str | None:
    """Return why a checkpoint with this `quantization_config` is not supported, or None if it is."""
    method, bits = _method(config), config.get("bits", 4)
    if method not in _FINDERS:
        return f"its weights are quantised by {method}; read are {', '.join(sorted(_FINDERS))}"
    if method in {"gptq", "awq"} and bits not in _BITS:
        return f"its weights have {bits} bits; {method} is read with {', '.join(map(str, _BITS))}"
    if method == "awq" and config.get("version", "gemm") not in {"gemm", "GEMM"}:
        return f"its weights are packed in AWQ's version {config['version']}; read is gemm"
    if method == "modelopt":
        return _modelopt_unsupported_reason(config)
    return _compression_unsupported_reason(config) if method == "compressed-tensors" else None


def _modelopt_unsupported_reason(config: Mapping[str, Any]) -> str | None:
    algorithm = config.get("quant_algo")
    if algorithm in _ALGORITHMS:
        return None
    return f"its weights are quantised by modelopt's {algorithm}; read are {', '.join(_ALGORITHMS)}"


def _compression_unsupported_reason(config: Mapping[str, Any]) -> str | None:
    if config.get("format") not in _COMPRESSED:
        return f"its weights are compressed as {config.get('format')}; read are {', '.join(_COMPRESSED)}"
    if len(_all_bits(config)) > 1:
        return "its groups of weights have several numbers of bits"
    if config.get("format") == "pack-quantized" and _all_bits(config) - set(_BITS):
        return (
            f"its weights have {_all_bits(config).pop()} bits; pack-quantized is read with {', '.join(map(str, _BITS))}"
        )
    return None


def find_packing(stored: Mapping[str, Stored], config: Mapping[str, Any], read: Read) -> Packing:
    """Return the packed weights among stored tensors. `packing_unsupported_reason` must be None."""
    weights = list(_FINDERS[_method(config)](stored, config, read))
    return Packing(weights, [name for name in stored if name.endswith(_IGNORED)])


def _method(config: Mapping[str, Any]) -> str:
    if "quant_method" in config:
        return str(config["quant_method"])
    return "bitsandbytes" if config.get("load_in_4bit") or config.get("load_in_8bit") else "a method it doesn't name"


class _Integers(NamedTuple):
    """A weight of integer codes with scales and zero points for groups of inputs."""

    base: str
    shape: tuple[int, ...]
    parts: Mapping[str, str]
    codes: Callable[[Mapping[str, Array]], Codes]
    bits: int
    num_groups: int


def _integers(given: _Integers, stored: Mapping[str, Stored]) -> PackedWeight:
    """Return the weight, with the native step's blocks if it has some for the size of the groups."""
    name, codes = f"{given.base}.weight", given.codes
    size, scale_type = block_size_of(given.shape[1], given.num_groups), stored[given.parts["scales"]].kind

    def dequantize(tensors: Mapping[str, Array]) -> npt.NDArray[np.float32]:
        return codes(tensors).numbers

    if size is None:
        return PackedWeight(name, given.shape, given.parts, dequantize)

    def blocks(tensors: Mapping[str, Array]) -> npt.NDArray[np.uint8]:
        found = codes(tensors)
        if found.codes.shape != given.shape:
            raise ValueError("its parts don't fit each other")
        return to_blocks(found, size, scale_type)

    kind = kind_of(given.bits, size, scale_type)
    return PackedWeight(name, given.shape, given.parts, dequantize, kind, blocks, given.num_groups)


def _gptq(stored: Mapping[str, Stored], config: Mapping[str, Any], _: Read) -> Iterator[PackedWeight]:
    """Yield the packed weights of a GPTQ checkpoint."""
    bits = config.get("bits", 4)
    zero_point_offset = (
        0 if config.get("checkpoint_format") == "gptq_v2" else 1
    )  # the first version stores zero points minus one
    needed = {".qweight": "codes", ".qzeros": "zeros", ".scales": "scales"}
    for base, parts in _groups(stored, needed, {".g_idx": "groups"}):
        rows, num_outputs = stored[parts["codes"]].shape
        shape = num_outputs, rows * _WORD // bits
        codes = partial(gptq_codes, bits=bits, zero_point_offset=zero_point_offset)
        yield _integers(_Integers(base, shape, parts, codes, bits, stored[parts["scales"]].shape[0]), stored)


def _awq(stored: Mapping[str, Stored], config: Mapping[str, Any], _: Read) -> Iterator[PackedWeight]:
    """Yield the packed weights of an AWQ checkpoint."""
    bits = config.get("bits", 4)
    for base, parts in _groups(stored, {".qweight": "codes", ".qzeros": "zeros", ".scales": "scales"}):
        num_inputs, words = stored[parts["codes"]].shape
        shape = words * _WORD // bits, num_inputs
        codes = partial(awq_codes, bits=bits)
        yield _integers(_Integers(base, shape, parts, codes, bits, stored[parts["scales"]].shape[0]), stored)


def _scaled(stored: Mapping[str, Stored], config: Mapping[str, Any], _: Read) -> Iterator[PackedWeight]:
    """Yield 8-bit weights with one scale for all, for each row, or for each block of rows and columns."""
    for scale in (".weight_scale_inv", ".weight_scale"):
        for base, parts in _groups(stored, {".weight": "codes", scale: "scales"}, {".weight_zero_point": "zeros"}):
            kind, shape = stored[parts["codes"]]
            if kind in _BYTES:
                scales = stored[parts["scales"]].shape
                if kind == "I8" and len(shape) == 2 and scales[:1] == shape[:1] and len(scales) <= 2:
                    num_groups = scales[1] if len(scales) == 2 else 1
                    yield _integers(_Integers(base, shape, parts, byte_codes, 8, num_groups), stored)
                    continue
                dequantize = partial(dequantize_scaled, kind=kind, block=_block(config))
                size = float8_block_size(kind, shape, scales, _block(config)) if "zeros" not in parts else None
                if size is None:
                    yield PackedWeight(f"{base}.weight", shape, parts, dequantize)
                    continue
                blocks = partial(float8_blocks, block=_block(config), size=size)
                yield PackedWeight(f"{base}.weight", shape, parts, dequantize, f"f8.g{size}", blocks)


def _block(config: Mapping[str, Any]) -> list[int] | None:
    """Return the rows and columns that share a scale, if the configuration has them."""
    groups = (group.get("weights") or {} for group in (config.get("config_groups") or {}).values())
    found = [config.get("weight_block_size"), *(group.get("block_structure") for group in groups)]
    return next((list(each) for each in found if each), None)


def _compressed(stored: Mapping[str, Stored], config: Mapping[str, Any], read: Read) -> Iterator[PackedWeight]:
    """Yield the packed and the scaled weights of a checkpoint in the format compressed-tensors."""
    if config.get("format") == _NVFP4:
        yield from _nvfp4(
            stored, {".weight_packed": "codes", ".weight_scale": "scales", ".weight_global_scale": "divisor"}
        )
        return
    yield from _scaled(stored, config, read)
    needed = {".weight_packed": "codes", ".weight_scale": "scales", ".weight_shape": "shape"}
    for base, parts in _groups(stored, needed, {".weight_zero_point": "zeros", ".weight_g_idx": "groups"}):
        if "zeros" in parts and stored[parts["zeros"]].kind != "I32":
            raise ValueError(f"{parts['zeros']} is not packed")
        num_outputs, num_inputs = (int(size) for size in read(parts["shape"]).reshape(-1))
        bits = _compressed_bits(config)
        codes, num_groups = partial(row_codes, bits=bits, num_inputs=num_inputs), stored[parts["scales"]].shape[-1]
        yield _integers(_Integers(base, (num_outputs, num_inputs), parts, codes, bits, num_groups), stored)


def _compressed_bits(config: Mapping[str, Any]) -> int:
    """Return the number of bits, which is the same in all groups; other files are not supported."""
    bits = _all_bits(config)
    return bits.pop() if bits else 4


def _all_bits(config: Mapping[str, Any]) -> set[int]:
    groups = [group.get("weights") or {} for group in (config.get("config_groups") or {}).values()]
    return {group["num_bits"] for group in groups if isinstance(group.get("num_bits"), int)}


def _bitsandbytes(stored: Mapping[str, Stored], _: Mapping[str, Any], read: Read) -> Iterator[PackedWeight]:
    """Yield the packed weights of a bitsandbytes checkpoint, of 8 or of 4 bits."""
    for base, parts in _groups(stored, {".SCB": "scales", ".weight": "codes"}, {".weight_format": "form"}):
        yield _integers(_Integers(base, stored[parts["codes"]].shape, parts, int8_row_codes, 8, 1), stored)
    of_weight = {".weight": "codes", ".weight.absmax": "scales", ".weight.quant_map": "values"}
    nested = {".weight.nested_absmax": "nested_scales", ".weight.nested_quant_map": "nested_values"}
    for state in _STATES:
        needed = {f".weight.quant_state.bitsandbytes__{state}": "state", **of_weight}
        for base, parts in _groups(stored, needed, nested):
            quant_state = json.loads(read(parts["state"]).tobytes())
            dequantize = partial(dequantize_codes, quant_state=quant_state)
            shape = tuple(quant_state["shape"])
            size = four_bit_block_size(state, shape, read(parts["values"]), int(quant_state["blocksize"]))
            kind = None if size is None else f"{state}.g{size}"
            blocks = None if size is None else partial(four_bit_blocks, quant_state=quant_state, size=size)
            yield PackedWeight(f"{base}.weight", shape, parts, dequantize, kind, blocks)


def _mxfp4(stored: Mapping[str, Stored], _: Mapping[str, Any], __: Read) -> Iterator[PackedWeight]:
    for base, parts in _groups(stored, {"_blocks": "codes", "_scales": "scales"}):
        experts, rows, groups, size = stored[parts["codes"]].shape
        shape = (experts, groups * size * 2, rows)
        yield PackedWeight(base, shape, parts, dequantize_mxfp4, "mxfp4", mxfp4_blocks, is_sliceable=True)


def _modelopt(stored: Mapping[str, Stored], config: Mapping[str, Any], read: Read) -> Iterator[PackedWeight]:
    """Yield the packed weights of a checkpoint of NVIDIA's Model Optimizer."""
    if config.get("quant_algo") == "FP8":
        yield from _scaled(stored, config, read)
    else:
        yield from _nvfp4(stored, {".weight": "codes", ".weight_scale": "scales", ".weight_scale_2": "scale"})


def _nvfp4(stored: Mapping[str, Stored], needed: Mapping[str, str]) -> Iterator[PackedWeight]:
    """Yield matrices of NVFP4. Raise ValueError if a part doesn't fit the others."""
    for base, parts in _groups(stored, needed):
        num_outputs, num_bytes = stored[parts["codes"]].shape
        shape = (num_outputs, 2 * num_bytes)
        scales = stored[parts["scales"]]
        if scales.kind != "F8_E4M3" or scales.shape != (num_outputs, shape[1] / NVFP4_GROUP):
            raise ValueError(f"{parts['scales']} doesn't have an e4m3 number for each {NVFP4_GROUP} numbers")
        yield PackedWeight(f"{base}.weight", shape, parts, dequantize_nvfp4, "nvfp4", nvfp4_blocks)


def _groups(
    stored: Mapping[str, Stored], needed: Mapping[str, str], more: Mapping[str, str] | None = None
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each base name that has all needed tensors, with the names of its tensors by role.

    `needed` and the optional `more` map suffixes of names to roles.
    """
    first = next(iter(needed))
    for name in stored:
        base = name.removesuffix(first)
        if base != name and all(f"{base}{end}" in stored for end in needed):
            ends = {**needed, **(more or {})}
            yield base, {role: f"{base}{end}" for end, role in ends.items() if f"{base}{end}" in stored}


_NVFP4: Final = "nvfp4-pack-quantized"
_COMPRESSED: Final = ("float-quantized", "int-quantized", "naive-quantized", "pack-quantized", _NVFP4)
_ALGORITHMS: Final = ("FP8", "NVFP4")  # of modelopt
_Finder: TypeAlias = Callable[[Mapping[str, Stored], Mapping[str, Any], Read], Iterator[PackedWeight]]
_FINDERS: Final[dict[str, _Finder]] = {
    "awq": _awq,
    "bitsandbytes": _bitsandbytes,
    "compressed-tensors": _compressed,
    "fbgemm_fp8": _scaled,
    "fp8": _scaled,
    "gptq": _gptq,
    "modelopt": _modelopt,
    "mxfp4": _mxfp4,
}
