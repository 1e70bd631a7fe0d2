"""The blocks of a checkpoint's quantized matrices, for a native model that multiplies them as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from service.engine.models.checkpoint.checkpoint import Checkpoint, TensorSlice
from service.engine.models.plans.expert_sources import is_expert_tensor, stored_name
from service.engine.models.plans.plan import AttentionPlan, DecoderPlan, DensePlan, LayerPlan
from service.engine.models.plans.sources import Tensors, origin_of

# The modules of each product whose columns may have an order.
_ATTENTION: Final = (
    ("self_attn.q_proj", "self_attn.gate_proj", "self_attn.k_proj", "self_attn.v_proj"),
    ("self_attn.o_proj",),
)
_RECURRENT: Final = (("recurrent.out_proj",),)
_DENSE: Final = (("mlp.gate_proj", "mlp.up_proj"), ("mlp.down_proj",))
# The modules of latents and of recurrent layers whose weights are matrices of the step.
_MIXERS: Final = (
    *(f"self_attn.{name}" for name in ("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa")),
    *(f"recurrent.{name}_proj" for name in ("in", "qkv", "gate", "beta", "decay", "x", "dt", "out")),
)


class BlockSources:
    """The formats of the step's matrices, and the checkpoint's tensors: blocks for matrices, numbers otherwise."""

    def __init__(self, checkpoint: Checkpoint, plan: DecoderPlan, tensors: Tensors) -> None:
        self._checkpoint, self._plan, self._tensors = checkpoint, plan, tensors
        self._in_blocks: set[str] = set()  # names in the checkpoint

    def kind_of(self, name: str) -> str:
        """Return the format of one of the step's matrices. Raise ModelLoadError if it is missing."""
        experts = self._tensors.experts
        if experts is not None and is_expert_tensor(name):
            stored = stored_name(name, experts, self._tensors.layers)
        else:
            stored = origin_of(name, self._plan, self._tensors).name
        self._in_blocks.add(stored)
        return self._checkpoint.kind(stored)

    def order_of(self, name: str) -> NDArray[np.int32] | None:
        """Return the inputs of the columns of one of the step's matrices; None: they are in their own order."""
        if is_expert_tensor(name):
            return None
        return self._checkpoint.input_orders.get(origin_of(name, self._plan, self._tensors).name)

    def take(self, name: str, shape: Sequence[int], part: TensorSlice | None) -> NDArray[Any]:
        """Read a tensor of the checkpoint, after all formats are known."""
        take = self._checkpoint.take_blocks if name in self._in_blocks else self._checkpoint.take
        return take(name, shape, part)


def has_blocks(checkpoint: Checkpoint, plan: DecoderPlan, tensors: Tensors) -> bool:
    """Return whether a model can be computed in the checkpoint's blocks, whose rows must be those of the step.

    Those of decoders with inputs of layers, several residuals, or experts in addition to dense parts are not, nor those
    of latents and of recurrent layers that a file has in parts.
    """
    experts = tensors.experts
    is_turned = experts is not None and experts.is_fused and experts.is_transposed
    has_tables = plan.layer_input_width > 0 or plan.num_extra_streams > 0
    has_two_parts = any(layer.experts is not None for layer in plan.layers)
    has_all = checkpoint.block_type is not None and not (is_turned or has_tables or has_two_parts)
    return has_all and _mixers_fit(checkpoint, plan, tensors) and _orders_fit(checkpoint, plan, tensors)


def _mixers_fit(checkpoint: Checkpoint, plan: DecoderPlan, tensors: Tensors) -> bool:
    """Return whether the blocks of all matrices of latents and of recurrent layers are rows of the step's."""
    for index, layer in enumerate(plan.layers):
        if isinstance(layer.attention, AttentionPlan) and layer.recurrent is None:
            continue
        for module in _MIXERS:
            origin = origin_of(f"model.layers.{index}.{module}.weight", plan, tensors)
            if origin.name in checkpoint and not checkpoint.stores_rows(origin.name):
                return False
    return True


def _orders_fit(checkpoint: Checkpoint, plan: DecoderPlan, tensors: Tensors) -> bool:
    """Return whether the step can take inputs in the orders of the checkpoint's columns.

    Only matrices of attention and of dense parts and outputs of recurrent parts can have an order, and those that are
    one product have the same.
    """
    orders = checkpoint.input_orders
    if not orders:
        return True
    free = set(orders)
    for index, layer in enumerate(plan.layers):
        for modules in _products(layer):
            names = [origin_of(f"model.layers.{index}.{each}.weight", plan, tensors).name for each in modules]
            found = [orders.get(name) for name in names if name in checkpoint]
            if not all(_is_same(each, found[0]) for each in found):
                return False
            free -= set(names)
    return not free


def _products(layer: LayerPlan) -> tuple[tuple[str, ...], ...]:
    """Return the modules of each of a layer's products whose columns may have an order."""
    return (
        *(_ATTENTION if layer.attention is not None else ()),
        *(_RECURRENT if layer.recurrent is not None else ()),
        *(_DENSE if isinstance(layer.feed_forward, DensePlan) else ()),
    )


def _is_same(one: NDArray[np.int32] | None, other: NDArray[np.int32] | None) -> bool:
    return np.array_equal(one, other) if one is not None and other is not None else one is other
