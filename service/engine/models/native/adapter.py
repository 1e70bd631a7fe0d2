"""Convert a LoRA adapter's modules to the format of the native backend."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from service.engine.models.checkpoint.adapter_files import Adapter, LowRank

Modules = list[tuple[str, np.ndarray, np.ndarray]]  # (name, down matrix, up matrix), LoRA's A and B

_WEIGHT = ".weight"
_LAYERS = "model.layers."


def to_native_modules(adapter: Adapter, shapes: Mapping[str, tuple[int, ...]]) -> Modules:
    """Return an adapter's modules for the native backend. Raise AdapterRejected for an unknown module or shape.

    `shapes` are the shapes of the model's tensors by name.
    """
    return [(name, *_checked_matrices(adapter, name, low_rank, shapes)) for name, low_rank in adapter.modules.items()]


def _checked_matrices(
    adapter: Adapter, name: str, low_rank: LowRank, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[np.ndarray, np.ndarray]:
    """Return a module's contiguous down and up matrices, after a check against the shape of the model's weight."""
    shape = shapes.get(name + _WEIGHT, ())
    if len(shape) != 2 or not name.startswith(_LAYERS):
        matrices = {each.removesuffix(_WEIGHT) for each, sizes in shapes.items() if len(sizes) == 2}
        known = ", ".join(sorted({each.rpartition(".")[2] for each in matrices if each.startswith(_LAYERS)}))
        raise adapter.rejection(name, f"the model has no such module; supported are {known} of its layers")
    product_shape, weight_shape = [low_rank.up.shape[0], low_rank.down.shape[1]], [*shape]
    if product_shape != weight_shape:
        raise adapter.rejection(
            name, f"its shape is {product_shape}, but the model's weight has the shape {weight_shape}"
        )
    return np.ascontiguousarray(low_rank.down), np.ascontiguousarray(low_rank.up)
