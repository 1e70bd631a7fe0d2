"""Write checkpoints as quantizers do.

Each packer returns the stored tensors of a weight, and the values that they represent. The words are packed bit by bit
here, from the formats' documentation and independently of the code that reads them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from service.engine.models.checkpoint.packed.number_blocks import TABLES

GROUP = 16  # inputs that share a scale
FILE = "model.safetensors"


class Packed(NamedTuple):
    """Tensors by the ends of their names, and the numbers that they stand for, `[outputs, inputs]`."""

    tensors: dict[str, Tensor]
    values: Tensor


Packer: TypeAlias = Callable[[Tensor], Packed]


def _words(codes: Tensor, bits: int) -> Tensor:
    """Pack the numbers of each row into words of 32 bits, the first in the lowest bits."""
    per_word = 32 // bits
    rows = []
    for row in codes.tolist():
        found = []
        for start in range(0, len(row), per_word):
            word = sum(code << (bits * index) for index, code in enumerate(row[start : start + per_word]))
            found.append(word - (1 << 32) if word >= 1 << 31 else word)
        rows.append(found)
    return torch.tensor(rows, dtype=torch.int32)


def _codes(weight: Tensor, bits: int, least: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Return unsigned codes `[outputs, inputs]`, and zero points of at `least` and scales `[outputs, groups]`."""
    grouped = weight.reshape(len(weight), -1, GROUP)
    low, high = grouped.amin(-1), grouped.amax(-1)
    scales = ((high - low) / ((1 << bits) - 2)).half().float()
    zeros = (-low / scales).round().clamp(least, (1 << bits) - 1)
    codes = (grouped / scales[..., None] + zeros[..., None]).round().clamp(0, (1 << bits) - 1)
    return codes.flatten(1).int(), zeros.int(), scales


def _values(codes: Tensor, zeros: Tensor, scales: Tensor) -> Tensor:
    return (codes - zeros.repeat_interleave(GROUP, 1)) * scales.repeat_interleave(GROUP, 1)


def gptq(
    weight: Tensor, bits: int = 4, *, shuffled: bool = False, less: int = 1, seed: int = 1, least: int = 1
) -> Packed:
    """Pack words along the inputs. With `shuffled`, an input's group does not follow from its position.

    `less` is subtracted from zero points, which are at least `least`, modulo the number of codes.
    """
    groups = torch.arange(weight.shape[1]) // GROUP
    order = torch.randperm(weight.shape[1], generator=torch.Generator().manual_seed(seed)) if shuffled else None
    codes, zeros, scales = _codes(weight if order is None else weight[:, order], bits, least)
    values = _values(codes, zeros, scales)
    if order is not None:
        back = order.argsort()
        codes, values, groups = codes[:, back], values[:, back], groups[back]
    tensors = {
        "qweight": _words(codes, bits).t().contiguous(),
        "qzeros": _words((zeros.t() - less) & ((1 << bits) - 1), bits),
        "scales": scales.t().half().contiguous(),
        "g_idx": groups.int(),
    }
    return Packed(tensors, values)


def awq(weight: Tensor) -> Packed:
    """Pack words along the outputs. The first word has the columns 0, 2, 4, 6, 1, 3, 5, 7."""
    codes, zeros, scales = _codes(weight, 4)
    order = [0, 2, 4, 6, 1, 3, 5, 7]

    def words(numbers: Tensor) -> Tensor:
        return _words(numbers.reshape(len(numbers), -1, 8)[..., order].flatten(1), 4)

    tensors = {"qweight": words(codes.t()), "qzeros": words(zeros.t()), "scales": scales.t().half().contiguous()}
    return Packed(tensors, _values(codes, zeros, scales))


def fp8_blocks(weight: Tensor) -> Packed:
    """Store a scale for each block of 16 rows and 32 columns."""
    rows, columns = -(-weight.shape[0] // 16), -(-weight.shape[1] // 32)
    scales = torch.rand(rows, columns, generator=torch.Generator().manual_seed(2)) / 100 + 0.001
    spread = scales.repeat_interleave(16, 0).repeat_interleave(32, 1)[: weight.shape[0], : weight.shape[1]]
    codes = (weight / spread).to(torch.float8_e4m3fn)
    return Packed({"weight": codes, "weight_scale_inv": scales}, codes.float() * spread)


def fp8_tensor(weight: Tensor) -> Packed:
    """Store one scale of all weights, and one of the activations, which changes no weight, as transformers does."""
    scale = (weight.abs().amax() / 448).bfloat16()
    codes = (weight / scale.float()).clamp(-448, 448).to(torch.float8_e4m3fn)
    tensors = {"weight": codes, "weight_scale_inv": scale, "activation_scale": torch.tensor(0.5).bfloat16()}
    return Packed(tensors, codes.float() * scale.float())


def fp8_rows(weight: Tensor) -> Packed:
    """Store a scale per row in bfloat16, and a scale of the activations, which does not affect weights."""
    scales = (weight.abs().amax(1, keepdim=True) / 448).bfloat16()
    codes = (weight / scales.float()).clamp(-448, 448).to(torch.float8_e4m3fn)
    tensors = {"weight": codes, "weight_scale": scales, "input_scale": torch.ones(1)}
    return Packed(tensors, codes.float() * scales.float())


def int8_rows(weight: Tensor) -> Packed:
    """Store integers with a scale per row."""
    scales = weight.abs().amax(1, keepdim=True) / 127
    codes = (weight / scales).round().to(torch.int8)
    return Packed({"weight": codes, "weight_scale": scales}, codes.float() * scales)


def packed_rows(weight: Tensor, bits: int = 4, *, has_zeros: bool = False) -> Packed:
    """Pack words along the inputs as compressed-tensors does, with numbers relative to the middle of their range."""
    codes, zeros, scales = _codes(weight, bits)
    middle = torch.full_like(zeros, 1 << (bits - 1))
    tensors = {
        "weight_packed": _words(codes, bits),
        "weight_scale": scales.half(),
        "weight_shape": torch.tensor(weight.shape),
    }
    if has_zeros:
        tensors["weight_zero_point"] = _words(zeros.t(), bits).t().contiguous()
    return Packed(tensors, _values(codes, zeros if has_zeros else middle, scales))


def bitsandbytes_int8(weight: Tensor) -> Packed:
    """Store integers, and each row's largest absolute value, which is stored as 127."""
    most = weight.abs().amax(1)
    codes = (weight / most[:, None] * 127).round().to(torch.int8)
    tensors = {"weight": codes, "SCB": most, "weight_format": torch.tensor(0, dtype=torch.uint8)}
    return Packed(tensors, codes.float() * (most[:, None] / 127))


def bitsandbytes_nf4(weight: Tensor, *, is_nested: bool = True) -> Packed:
    """Store two codes per byte, the first in the upper half. With `is_nested`, the blocks' scales are packed too."""
    values = torch.from_numpy(TABLES["nf4"].copy())
    blocks = weight.reshape(-1, 64)
    scales = blocks.abs().amax(1)
    tensors = {"weight.quant_map": values}
    data: dict[str, Any] = {"blocksize": 64, "shape": list(weight.shape), "dtype": "float32"}
    if is_nested:
        offset, inner = float(scales.mean()), torch.linspace(-1, 1, 256)
        outer = (scales - offset).abs().amax().reshape(1)
        picked = ((scales - offset)[:, None] / outer - inner).abs().argmin(1).to(torch.uint8)
        scales = inner[picked.long()] * outer + offset
        tensors |= {"weight.absmax": picked, "weight.nested_absmax": outer, "weight.nested_quant_map": inner}
        data |= {"nested_blocksize": 256, "nested_offset": offset}
    else:
        tensors["weight.absmax"] = scales
    codes = (blocks[..., None] / scales[:, None, None] - values).abs().argmin(-1).reshape(-1)
    tensors["weight"] = ((codes[::2] << 4) | codes[1::2]).to(torch.uint8)[:, None]
    tensors["weight.quant_state.bitsandbytes__nf4"] = torch.tensor(list(json.dumps(data).encode()), dtype=torch.uint8)
    return Packed(tensors, (values[codes].reshape(-1, 64) * scales[:, None]).reshape(weight.shape))


def nvfp4(weight: Tensor, *, is_divided: bool = False) -> Packed:
    """Store two codes per byte, the first in the lower half, an e4m3 scale for 16, and a scale of the matrix.

    With `is_divided`, the matrix' scale is stored as its reciprocal, as compressed-tensors does; otherwise as Model
    Optimizer does. A scale of activations changes no weight.
    """
    numbers = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    table = torch.cat([numbers, -numbers])
    whole = weight.abs().amax() / (6 * 448)
    blocks = weight.reshape(len(weight), -1, 16)
    scales = (blocks.abs().amax(-1) / 6 / whole).to(torch.float8_e4m3fn)
    factors = scales.float()[..., None] * whole
    codes = (blocks[..., None] / factors[..., None].clamp_min(1e-20) - table).abs().argmin(-1)
    flat = codes.flatten(1)
    packed = (flat[:, ::2] | flat[:, 1::2] << 4).to(torch.uint8)
    values = (table[codes] * factors).reshape(weight.shape)
    if is_divided:
        ends = {"weight_global_scale": 1 / whole[None], "input_global_scale": torch.ones(1)}
        return Packed({"weight_packed": packed, "weight_scale": scales, **ends}, values)
    ends = {"weight_scale_2": whole, "input_scale": torch.ones(1)}
    return Packed({"weight": packed, "weight_scale": scales, **ends}, values)


def pack_folder(folder: Path, packer: Packer, quantization: dict[str, Any]) -> dict[str, Tensor]:
    """Pack all projections of a folder's layers. Return all weights with the values that they now represent."""
    stored, values = dict[str, Tensor](), dict[str, Tensor]()
    for name, tensor in load_file(folder / FILE).items():
        if "_proj.weight" not in name:
            stored[name] = values[name] = tensor
            continue
        packed = packer(tensor)
        base = name.removesuffix("weight")
        stored |= {f"{base}{end}": each.contiguous() for end, each in packed.tensors.items()}
        values[name] = packed.values
    save_file(stored, folder / FILE)
    data = json.loads((folder / "config.json").read_text()) | {"quantization_config": quantization}
    (folder / "config.json").write_text(json.dumps(data))
    return values
