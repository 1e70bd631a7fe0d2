"""Map an adapter's modules to the fused projections of the decoder."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from service.engine.models.checkpoint.adapter_files import Adapter
from service.engine.models.plans.adapter_modules import to_step_modules
from service.engine.models.plans.plan import DecoderPlan
from service.engine.models.plans.sources import Tensors
from service.engine.models.torch.layers.low_rank import LowRankSum
from service.engine.models.torch.layers.ops import interleave_pairs
from service.engine.models.torch.step_tensors import all_tensor_shapes, layer_tensor_shapes

# The projections of the step that each fused product computes, in the order of their outputs.
_PRODUCTS: Final = {
    "qkv": ("q_proj", "k_proj", "v_proj"),
    "attention_output": ("o_proj",),
    "gate_up": ("gate_proj", "up_proj"),
    "down": ("down_proj",),
}
_PRODUCT_OF: Final = {part: product for product, parts in _PRODUCTS.items() for part in parts}


def fused_sums(
    adapter: Adapter, plan: DecoderPlan, tensors: Tensors, dtype: torch.dtype, device: torch.device
) -> Mapping[Hashable, LowRankSum]:
    """Return the adapter's low-rank sums by layer and projection. Raise AdapterRejected for an unknown module."""
    found: dict[tuple[int, str], dict[str, tuple[NDArray[np.float32], NDArray[np.float32]]]] = defaultdict(dict)
    for name, down, up in to_step_modules(adapter, all_tensor_shapes(plan), plan, tensors):
        layer, part = int(name.split(".")[2]), name.rpartition(".")[2]
        found[layer, _PRODUCT_OF[part]][part] = down, up
    sums: dict[Hashable, LowRankSum] = {}
    for (layer, product), changed in found.items():
        matrices = (each.t().to(device, dtype).contiguous() for each in _fused(plan, layer, product, changed))
        sums[layer, product] = LowRankSum(*matrices)
    return sums


def _fused(
    plan: DecoderPlan,
    layer: int,
    product: str,
    changed: Mapping[str, tuple[NDArray[np.float32], NDArray[np.float32]]],
) -> tuple[Tensor, Tensor]:
    """Return the down matrices of a product's parts concatenated, and their up matrices as diagonal blocks."""
    shapes = layer_tensor_shapes(plan, layer)
    outputs = {name.split(".")[-2]: shape[0] for name, shape in shapes.items() if name.endswith("_proj.weight")}
    parts = [part for part in _PRODUCTS[product] if part in outputs]
    down = torch.cat([torch.from_numpy(changed[part][0]) for part in parts if part in changed])
    up = torch.zeros(sum(outputs[part] for part in parts), down.shape[0])
    row = column = 0
    for part in parts:
        if part in changed:
            own = torch.from_numpy(changed[part][1])
            up[row : row + outputs[part], column : column + own.shape[1]] = in_pairs(part, own, plan, layer)
            column += own.shape[1]
        row += outputs[part]
    return down, up


def in_pairs(module: str, tensor: Tensor, plan: DecoderPlan, layer: int) -> Tensor:
    """Return a tensor of a layer's queries or keys with its rows in adjacent rotary pairs; others are unchanged.

    `module` is q_proj, k_proj, q_norm or k_norm for queries and keys.
    """
    attention = plan.layers[layer].heads
    if module not in {"q_proj", "k_proj", "q_norm", "k_norm"} or attention.rotary < 0:
        return tensor
    num_rotated = 2 * len(plan.rotary[attention.rotary].inverse_frequencies)
    return interleave_pairs(tensor, attention.head_dim, num_rotated)
