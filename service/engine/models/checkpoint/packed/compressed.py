"""The packed weights of compressed-tensors, of NVIDIA's Model Optimizer, and of FP8: numbers with scales."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from service.engine.models.checkpoint.packed.dequantize import (
    NVFP4_GROUP,
    byte_codes,
    dequantize_nvfp4,
    dequantize_scaled,
    row_codes,
)
from service.engine.models.checkpoint.packed.number_blocks import float8_block_size, float8_blocks, nvfp4_blocks
from service.engine.models.checkpoint.packed.packed_weight import (
    IntegerWeight,
    PackedWeight,
    Read,
    Stored,
    integer_weight,
    named_groups,
)

BITS: Final = (2, 4, 8)  # of a packed number; 3-bit numbers would straddle words
_BYTES: Final = ("F8_E4M3", "F8_E5M2", "I8")
_NVFP4: Final = "nvfp4-pack-quantized"
_COMPRESSED: Final = ("float-quantized", "int-quantized", "naive-quantized", "pack-quantized", _NVFP4)
_ALGORITHMS: Final = ("FP8", "NVFP4")  # of modelopt


def modelopt_unsupported_reason(config: Mapping[str, Any]) -> str | None:
    algorithm = config.get("quant_algo")
    if algorithm in _ALGORITHMS:
        return None
    return f"its weights are quantised by modelopt's {algorithm}; read are {', '.join(_ALGORITHMS)}"


def compression_unsupported_reason(config: Mapping[str, Any]) -> str | None:
    if config.get("format") not in _COMPRESSED:
        return f"its weights are compressed as {config.get('format')}; read are {', '.join(_COMPRESSED)}"
    if (sparse := (config.get("sparsity_config") or {}).get("format") or "dense") != "dense":
        return f"its weights are stored as sparse matrices (sparsity_config.format {sparse}); read is dense"
    if _rotates_inputs(config):
        return "the inputs of its weights are rotated (transform_config), which is not supported"
    if len(_all_bits(config)) > 1:
        return "its groups of weights have several numbers of bits"
    if config.get("format") == "pack-quantized" and _all_bits(config) - set(BITS):
        return (
            f"its weights have {_all_bits(config).pop()} bits; pack-quantized is read with {', '.join(map(str, BITS))}"
        )
    return None


def _rotates_inputs(config: Mapping[str, Any]) -> bool:
    """Return whether activations are transformed as they are computed; weights that were transformed are stored so."""
    schemes = ((config.get("transform_config") or {}).get("config_groups") or {}).values()
    uses = (use for scheme in schemes for use in scheme.get("apply") or ())
    return any(not str(use.get("location")).startswith("weight_") for use in uses)


def compressed_weights(stored: Mapping[str, Stored], config: Mapping[str, Any], read: Read) -> Iterator[PackedWeight]:
    """Yield the packed and the scaled weights of a checkpoint in the format compressed-tensors."""
    if config.get("format") == _NVFP4:
        yield from nvfp4_weights(
            stored, {".weight_packed": "codes", ".weight_scale": "scales", ".weight_global_scale": "divisor"}
        )
        return
    yield from scaled_weights(stored, config, read)
    needed = {".weight_packed": "codes", ".weight_scale": "scales", ".weight_shape": "shape"}
    for base, parts in named_groups(stored, needed, {".weight_zero_point": "zeros", ".weight_g_idx": "groups"}):
        if "zeros" in parts and stored[parts["zeros"]].kind != "I32":
            raise ValueError(f"{parts['zeros']} is not packed")
        num_outputs, num_inputs = (int(size) for size in read(parts["shape"]).reshape(-1))
        bits = _compressed_bits(config)
        codes, num_groups = partial(row_codes, bits=bits, num_inputs=num_inputs), stored[parts["scales"]].shape[-1]
        yield integer_weight(IntegerWeight(base, (num_outputs, num_inputs), parts, codes, bits, num_groups), stored)


def _compressed_bits(config: Mapping[str, Any]) -> int:
    """Return the number of bits, which is the same in all groups; other files are not supported."""
    bits = _all_bits(config)
    return bits.pop() if bits else 4


def _all_bits(config: Mapping[str, Any]) -> set[int]:
    groups = [group.get("weights") or {} for group in (config.get("config_groups") or {}).values()]
    return {group["num_bits"] for group in groups if isinstance(group.get("num_bits"), int)}


def scaled_weights(stored: Mapping[str, Stored], config: Mapping[str, Any], _: Read) -> Iterator[PackedWeight]:
    """Yield 8-bit weights with one scale for all, for each row, or for each block of rows and columns."""
    for scale in (".weight_scale_inv", ".weight_scale"):
        for base, parts in named_groups(stored, {".weight": "codes", scale: "scales"}, {".weight_zero_point": "zeros"}):
            kind, shape = stored[parts["codes"]]
            if kind in _BYTES:
                scales = stored[parts["scales"]].shape
                if kind == "I8" and len(shape) == 2 and scales[:1] == shape[:1] and len(scales) <= 2:
                    num_groups = scales[1] if len(scales) == 2 else 1
                    yield integer_weight(IntegerWeight(base, shape, parts, byte_codes, 8, num_groups), stored)
                    continue
                dequantize = partial(dequantize_scaled, kind=kind, block=_block(config))
                size = float8_block_size(kind, shape, scales, _block(config)) if "zeros" not in parts else None
                if size is None:
                    yield PackedWeight(f"{base}.weight", shape, parts, dequantize)
                    continue
                blocks = partial(float8_blocks, block=_block(config), size=size)
                yield PackedWeight(f"{base}.weight", shape, parts, dequantize, f"f8.g{size}", blocks)


def modelopt_weights(stored: Mapping[str, Stored], config: Mapping[str, Any], read: Read) -> Iterator[PackedWeight]:
    """Yield the packed weights of a checkpoint of NVIDIA's Model Optimizer."""
    if config.get("quant_algo") == "FP8":
        yield from scaled_weights(stored, config, read)
    else:
        yield from nvfp4_weights(stored, {".weight": "codes", ".weight_scale": "scales", ".weight_scale_2": "scale"})


def nvfp4_weights(stored: Mapping[str, Stored], needed: Mapping[str, str]) -> Iterator[PackedWeight]:
    """Yield matrices of NVFP4. Raise ValueError if a part doesn't fit the others."""
    for base, parts in named_groups(stored, needed):
        num_outputs, num_bytes = stored[parts["codes"]].shape
        shape = (num_outputs, 2 * num_bytes)
        scales = stored[parts["scales"]]
        if scales.kind != "F8_E4M3" or scales.shape != (num_outputs, shape[1] / NVFP4_GROUP):
            raise ValueError(f"{parts['scales']} doesn't have an e4m3 number for each {NVFP4_GROUP} numbers")
        yield PackedWeight(f"{base}.weight", shape, parts, dequantize_nvfp4, "nvfp4", nvfp4_blocks)


def _block(config: Mapping[str, Any]) -> list[int] | None:
    """Return the rows and columns that share a scale, if the configuration has them."""
    groups = (group.get("weights") or {} for group in (config.get("config_groups") or {}).values())
    found = [config.get("weight_block_size"), *(group.get("block_structure") for group in groups)]
    return next((list(each) for each in found if each), None)
