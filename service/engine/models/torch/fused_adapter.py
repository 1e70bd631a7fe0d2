"""Map an adapter's modules to the fused projections of the decoder."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence

import torch
from torch import Tensor

from service.engine.models.checkpoint.adapter_files import Adapter, LowRank
from service.engine.models.torch.decoder_shape import DecoderShape
from service.engine.models.torch.low_rank import LowRankSum
from service.engine.models.torch.ops import interleave_pairs

_MODULE = re.compile(r"model\.layers\.(\d+)\.(self_attn|mlp)\.(\w+)")


def fused_sums(
    adapter: Adapter, shape: DecoderShape, dtype: torch.dtype, device: torch.device
) -> Mapping[Hashable, LowRankSum]:
    """Return the adapter's low-rank sums by layer and projection. Raise AdapterRejected for an unknown module."""
    products = _products(shape)
    found: dict[tuple[int, str], dict[str, LowRank]] = {}
    for name, low_rank in adapter.modules.items():
        product, outputs, inputs = _locate(adapter, name, shape, products)
        expected, has = [outputs, inputs], [low_rank.up.shape[0], low_rank.down.shape[1]]
        if has != expected:
            raise adapter.rejection(name, f"its shape is {has}, but the model's weight has the shape {expected}")
        found.setdefault(product, {})[name.rpartition(".")[2]] = low_rank
    return {
        (layer, product): _fused(products[product][1], changed, shape, dtype, device)
        for (layer, product), changed in found.items()
    }


def _products(shape: DecoderShape) -> dict[str, tuple[int, dict[str, int]]]:
    """Return each fused projection's number of inputs, and the number of outputs of its parts, in order."""
    query, key = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
    hidden, inner = shape.hidden_size, shape.intermediate_size
    return {
        "qkv": (hidden, {"q_proj": query, "k_proj": key, "v_proj": key}),
        "attention_output": (query, {"o_proj": hidden}),
        "gate_up": (hidden, {"gate_proj": inner, "up_proj": inner}),
        "down": (inner, {"down_proj": hidden}),
    }


def _locate(
    adapter: Adapter, name: str, shape: DecoderShape, products: dict[str, tuple[int, dict[str, int]]]
) -> tuple[tuple[int, str], int, int]:
    """Return the layer and the fused projection of a module, and its numbers of outputs and inputs."""
    match = _MODULE.fullmatch(name)
    if match is not None and int(match[1]) < shape.num_layers:
        for product, (inputs, parts) in products.items():
            if match[3] in parts and (match[2] == "mlp") == (product in {"gate_up", "down"}):
                return (int(match[1]), product), parts[match[3]], inputs
    known = ", ".join(part for _, parts in products.values() for part in parts)
    raise adapter.rejection(name, f"the model has no such module; supported are {known} of its layers")


def _fused(
    parts: Mapping[str, int], changed: Mapping[str, LowRank], shape: DecoderShape, dtype: torch.dtype,
    device: torch.device,
) -> LowRankSum:  # fmt: skip
    """Return one low-rank sum for all parts: the down matrices concatenated, the up matrices as diagonal blocks."""
    down = torch.cat([torch.from_numpy(each.down) for each in _in_order(parts, changed)])
    up = torch.zeros(sum(parts.values()), down.shape[0])
    row = column = 0
    for part, outputs in parts.items():
        if (each := changed.get(part)) is not None:
            up[row : row + outputs, column : column + each.rank] = _in_pairs(part, torch.from_numpy(each.up), shape)
            column += each.rank
        row += outputs
    return LowRankSum(down.t().to(device, dtype).contiguous(), up.t().to(device, dtype).contiguous())


def _in_order(parts: Mapping[str, int], changed: Mapping[str, LowRank]) -> Sequence[LowRank]:
    return [changed[part] for part in parts if part in changed]


def _in_pairs(part: str, up: Tensor, shape: DecoderShape) -> Tensor:
    return interleave_pairs(up, shape.head_dim) if part in {"q_proj", "k_proj"} else up
