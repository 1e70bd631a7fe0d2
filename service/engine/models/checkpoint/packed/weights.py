"""Packed (quantized) weights of a checkpoint, and the tensors that each is made of.

A configuration's `quantization_config` names the method. With every method, a weight is read by its usual name and
dequantized when it is read. Scales of activations and caches are ignored, because neither is quantized here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from service.engine.models.checkpoint.packed.compressed import (
    BITS,
    compressed_weights,
    compression_unsupported_reason,
    modelopt_unsupported_reason,
    modelopt_weights,
    scaled_weights,
)
from service.engine.models.checkpoint.packed.dequantize import (
    awq_codes,
    dequantize_codes,
    dequantize_mxfp4,
    gptq_codes,
    int8_row_codes,
)
from service.engine.models.checkpoint.packed.number_blocks import four_bit_block_size, four_bit_blocks, mxfp4_blocks
from service.engine.models.checkpoint.packed.packed_weight import (
    IntegerWeight,
    PackedWeight,
    Read,
    Stored,
    integer_weight,
    named_groups,
)

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
_SECOND: Final = "gptq_v2"  # GPTQ's second format


class Packing(NamedTuple):
    """The packed weights of a checkpoint, and the names of ignored tensors."""

    weights: list[PackedWeight]
    ignored: list[str]


def packing_unsupported_reason(config: Mapping[str, Any]) -> str | None:
    """Return why a checkpoint with this `quantization_config` is not supported, or None if it is."""
    method, bits = _method(config), config.get("bits", 4)
    if method not in _FINDERS:
        return f"its weights are quantised by {method}; read are {', '.join(sorted(_FINDERS))}"
    if method in {"gptq", "awq"} and bits not in BITS:
        return f"its weights have {bits} bits; {method} is read with {', '.join(map(str, BITS))}"
    layout = _layout(config)
    if method == "gptq" and layout not in {"gptq", _SECOND}:
        return f"its weights are packed in GPTQ's format {layout}; read are gptq and {_SECOND}"
    if method == "awq" and layout != "gemm":
        return f"its weights are packed in AWQ's version {layout}; read is gemm"
    if method == "modelopt":
        return modelopt_unsupported_reason(config)
    return compression_unsupported_reason(config) if method == "compressed-tensors" else None


def find_packing(stored: Mapping[str, Stored], config: Mapping[str, Any], read: Read) -> Packing:
    """Return the packed weights among stored tensors. `packing_unsupported_reason` must be None."""
    weights = list(_FINDERS[_method(config)](stored, config, read))
    return Packing(weights, [name for name in stored if name.endswith(_IGNORED)])


def _method(config: Mapping[str, Any]) -> str:
    if "quant_method" in config:
        return str(config["quant_method"])
    return "bitsandbytes" if config.get("load_in_4bit") or config.get("load_in_8bit") else "a method it doesn't name"


def _layout(config: Mapping[str, Any]) -> str:
    """Return how a GPTQ or an AWQ checkpoint packs its codes, by any of the fields in which files state it."""
    if _method(config) == "awq":
        other = "llm-awq" if config.get("backend") == "llm-awq" else "gemm"
        return str(config.get("version") or config.get("format") or other).lower()
    other = "marlin" if config.get("is_marlin_format") else "gptq"
    return str(config.get("checkpoint_format") or config.get("format") or other).lower()


def _gptq(stored: Mapping[str, Stored], config: Mapping[str, Any], _: Read) -> Iterator[PackedWeight]:
    """Yield the packed weights of a GPTQ checkpoint."""
    bits = config.get("bits", 4)
    zero_point_offset = 0 if _layout(config) == _SECOND else 1  # the first version stores zero points minus one
    needed = {".qweight": "codes", ".qzeros": "zeros", ".scales": "scales"}
    for base, parts in named_groups(stored, needed, {".g_idx": "groups"}):
        rows, num_outputs = stored[parts["codes"]].shape
        shape = num_outputs, rows * _WORD // bits
        codes = partial(gptq_codes, bits=bits, zero_point_offset=zero_point_offset)
        yield integer_weight(IntegerWeight(base, shape, parts, codes, bits, stored[parts["scales"]].shape[0]), stored)


def _awq(stored: Mapping[str, Stored], config: Mapping[str, Any], _: Read) -> Iterator[PackedWeight]:
    """Yield the packed weights of an AWQ checkpoint."""
    bits = config.get("bits", 4)
    for base, parts in named_groups(stored, {".qweight": "codes", ".qzeros": "zeros", ".scales": "scales"}):
        num_inputs, words = stored[parts["codes"]].shape
        shape = words * _WORD // bits, num_inputs
        codes = partial(awq_codes, bits=bits)
        yield integer_weight(IntegerWeight(base, shape, parts, codes, bits, stored[parts["scales"]].shape[0]), stored)


def _bitsandbytes(stored: Mapping[str, Stored], _: Mapping[str, Any], read: Read) -> Iterator[PackedWeight]:
    """Yield the packed weights of a bitsandbytes checkpoint, of 8 or of 4 bits."""
    for base, parts in named_groups(stored, {".SCB": "scales", ".weight": "codes"}, {".weight_format": "form"}):
        yield integer_weight(IntegerWeight(base, stored[parts["codes"]].shape, parts, int8_row_codes, 8, 1), stored)
    of_weight = {".weight": "codes", ".weight.absmax": "scales", ".weight.quant_map": "values"}
    nested = {".weight.nested_absmax": "nested_scales", ".weight.nested_quant_map": "nested_values"}
    for state in _STATES:
        needed = {f".weight.quant_state.bitsandbytes__{state}": "state", **of_weight}
        for base, parts in named_groups(stored, needed, nested):
            quant_state = json.loads(read(parts["state"]).tobytes())
            dequantize = partial(dequantize_codes, quant_state=quant_state)
            shape = tuple(quant_state["shape"])
            size = four_bit_block_size(state, shape, read(parts["values"]), int(quant_state["blocksize"]))
            kind = None if size is None else f"{state}.g{size}"
            blocks = None if size is None else partial(four_bit_blocks, quant_state=quant_state, size=size)
            yield PackedWeight(f"{base}.weight", shape, parts, dequantize, kind, blocks)


def _mxfp4(stored: Mapping[str, Stored], _: Mapping[str, Any], __: Read) -> Iterator[PackedWeight]:
    for base, parts in named_groups(stored, {"_blocks": "codes", "_scales": "scales"}):
        experts, rows, groups, size = stored[parts["codes"]].shape
        shape = (experts, groups * size * 2, rows)
        yield PackedWeight(base, shape, parts, dequantize_mxfp4, "mxfp4", mxfp4_blocks, is_sliceable=True)


_Finder: TypeAlias = Callable[[Mapping[str, Stored], Mapping[str, Any], Read], Iterator[PackedWeight]]
_FINDERS: Final[dict[str, _Finder]] = {
    "awq": _awq,
    "bitsandbytes": _bitsandbytes,
    "compressed-tensors": compressed_weights,
    "fbgemm_fp8": scaled_weights,
    "fp8": scaled_weights,
    "gptq": _gptq,
    "modelopt": modelopt_weights,
    "mxfp4": _mxfp4,
}
