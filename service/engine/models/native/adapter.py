"""Convert an adapter's modules to the format of the native backend."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from service.engine.models.checkpoint.adapter_files import Adapter, LowRank

Modules = list[tuple[str, np.ndarray, np.ndarray]]

_WEIGHT = ".weight"
_LAYERS = "model.layers."


def native_modules(adapter: Adapter, shapes: Mapping[str, tuple[int, ...]]) -> Modules:
    """Return the name, down and up matrix of each module. Raise AdapterRefused for an unknown module or shape.

    `shapes` are the shapes of the model's tensors.
    """
    return [(name, *_checked(adapter, name, low_rank, shapes)) for name, low_rank in adapter.modules.items()]


def _checked(
    adapter: Adapter, name: str, low_rank: LowRank, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[np.ndarray, np.ndarray]:
    shape = shapes.get(name + _WEIGHT, ())
    if len(shape) != 2 or not name.startswith(_LAYERS):
        products = {each.removesuffix(_WEIGHT) for each, sizes in shapes.items() if len(sizes) == 2}
        known = ", ".join(sorted({each.rpartition(".")[2] for each in products if each.startswith(_LAYERS)}))
        raise adapter.refuse(name, f"the model has no such module; supported are {known} of its layers")
    has, wanted = [low_rank.up.shape[0], low_rank.down.shape[1]], [*shape]
    if has != wanted:
        raise adapter.refuse(name, f"its shape is {has}, but the model's weight has the shape {wanted}")
    return np.ascontiguousarray(low_rank.down), np.ascontiguousarray(low_rank.up)
