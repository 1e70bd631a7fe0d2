"""Convert a LoRA adapter's modules to those of a plan's step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from service.engine.models.checkpoint.adapter_files import Adapter, LowRank
from service.engine.models.plans.plan import DecoderPlan, ExpertsPlan
from service.engine.models.plans.sources import Origin, Shape, Tensors, origin_of, whole_shapes

Modules = list[tuple[str, np.ndarray, np.ndarray]]  # (name, down matrix, up matrix), LoRA's A and B

_WEIGHT = ".weight"
_LAYERS = "model.layers."
_MIXERS = ("self_attn.", "recurrent.")
_COEFFICIENTS = ".altup."
_EXPERTS = ("mlp.gate.", "mlp.experts.", "router.", "experts.")  # next to a dense part


def to_step_modules(adapter: Adapter, shapes: Mapping[str, Shape], plan: DecoderPlan, tensors: Tensors) -> Modules:
    """Return an adapter's modules by the names of the step. Raise AdapterRejected for an unknown module or shape.

    `shapes` are the shapes of the step's tensors by name. A module that the step divides is divided likewise.
    """
    matrices = [
        name for name in shapes if name.startswith(_LAYERS) and name.endswith(_WEIGHT) and not _is_fixed(name, plan)
    ]
    origins = {name: origin_of(name, plan, tensors) for name in matrices if len(shapes[name]) > 1}
    parts: dict[str, list[tuple[str, Origin]]] = defaultdict(list)
    for name, origin in origins.items():
        parts[origin.name.removesuffix(_WEIGHT)].append((name.removesuffix(_WEIGHT), origin))
    whole = whole_shapes(shapes, origins, plan)
    modules: Modules = []
    for name, low_rank in adapter.modules.items():
        if name not in parts:
            known = ", ".join(sorted({each.rpartition(".")[2] for each in parts}))
            is_expert = _belongs_to_experts(name, plan)
            problem = "adapters can't change experts" if is_expert else "the model has no such module"
            raise adapter.rejection(name, f"{problem}; supported are {known} of its layers")
        _check_shape(adapter, name, low_rank, whole[name + _WEIGHT])
        down = np.ascontiguousarray(low_rank.down)
        modules += [
            (part, down, np.ascontiguousarray(low_rank.up if origin.rows is None else low_rank.up[origin.rows]))
            for part, origin in parts[name]
        ]
    return modules


def _is_fixed(name: str, plan: DecoderPlan) -> bool:
    """Return whether a tensor or module belongs to a layer's experts, or to the coefficients of several residuals."""
    return _COEFFICIENTS in name or _belongs_to_experts(name, plan)


def _belongs_to_experts(name: str, plan: DecoderPlan) -> bool:
    """Return whether a tensor or module belongs to a layer's experts, its router or its shared expert."""
    number, _, within = name.removeprefix(_LAYERS).partition(".")
    if not number.isdecimal() or int(number) >= len(plan.layers) or within.startswith(_MIXERS):
        return False
    layer = plan.layers[int(number)]
    if layer.experts is not None:
        return within.startswith(_EXPERTS)
    return isinstance(layer.feed_forward, ExpertsPlan) and "norm" not in within


def _check_shape(adapter: Adapter, name: str, low_rank: LowRank, shape: Shape) -> None:
    """Raise AdapterRejected unless the module's matrices fit the shape of the model's weight."""
    product_shape, weight_shape = [low_rank.up.shape[0], low_rank.down.shape[1]], [*shape]
    if product_shape != weight_shape:
        raise adapter.rejection(
            name, f"its shape is {product_shape}, but the model's weight has the shape {weight_shape}"
        )
