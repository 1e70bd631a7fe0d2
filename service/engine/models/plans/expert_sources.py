"""The tensors of experts in checkpoints: one tensor per expert, or one for all experts of a layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.engine.models.checkpoint.checkpoint import TensorSlice
from service.engine.models.plans.plan import DecoderPlan

Shape: TypeAlias = tuple[int, ...]
TakeSlice: TypeAlias = Callable[[str, Shape, TensorSlice | None], NDArray[Any]]

_LAYERS = "model.layers."
_EXPERTS = ".mlp.experts."


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertTensors:
    """The names of the experts' tensors within a layer.

    `{}` stands for an expert's index; a tensor whose name has none holds all experts, gate and up together.
    """

    gate: str = "mlp.experts.{}.gate_proj"  # empty: the experts have no gate
    up: str = "mlp.experts.{}.up_proj"
    down: str = "mlp.experts.{}.down_proj"
    weight: str = ".weight"  # the end of a weight's name, and of a bias' name
    bias: str = ".bias"
    is_interleaved: bool = False  # the rows of gate and up alternate; otherwise gate is the first half
    is_transposed: bool = False  # weights are [inputs, outputs]

    @property
    def is_fused(self) -> bool:
        return "{}" not in self.down

    def are_in(self, has_tensor: Callable[[str], bool], plan: DecoderPlan, layers: str) -> bool:
        """Return whether a checkpoint stores its experts like this. `layers` is the prefix of a layer's names."""
        layers_of_experts = (i for i, layer in enumerate(plan.layers) if layer.routed is not None)
        if (first := next(layers_of_experts, None)) is None:
            return False
        return has_tensor(layers.format(first) + self.down.format(0) + self.weight)


# The names in checkpoints whose tensors are named like transformers 5 names its parameters.
FUSED: Final = ExpertTensors(
    gate="mlp.experts.gate_up_proj",
    up="mlp.experts.gate_up_proj",
    down="mlp.experts.down_proj",
    weight="",
    bias="_bias",
)


def is_expert_tensor(name: str) -> bool:
    """Return whether a tensor of the step belongs to one of several experts."""
    return name.startswith(_LAYERS) and _EXPERTS in name


def stored_name(name: str, tensors: ExpertTensors, layers: str) -> str:
    """Return the name in the checkpoint of the tensor that holds an expert's tensor of the step."""
    number, _, within = name.removeprefix(_LAYERS).partition(".")
    index, module, kind = within.removeprefix(_EXPERTS.removeprefix(".")).split(".")
    stored: str = getattr(tensors, module.removesuffix("_proj")).format(int(index)) + getattr(tensors, kind)
    return layers.format(number) + stored


def read_experts(
    shapes: Mapping[str, Shape], plan: DecoderPlan, tensors: ExpertTensors, layers: str, take: TakeSlice
) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the step's tensors of experts, whose shapes are given. Of a fused tensor one expert is read at a time."""
    read: dict[str, tuple[int, NDArray[Any]]] = {}
    for name, shape in shapes.items():
        number, _, within = name.removeprefix(_LAYERS).partition(".")
        index, module, _ = within.removeprefix(_EXPERTS.removeprefix(".")).split(".")
        expert, part = int(index), module.removesuffix("_proj")
        stored = stored_name(name, tensors, layers)
        if not tensors.is_fused:
            yield name, take(stored, shape, None)
            continue
        if stored not in read or read[stored][0] != expert:
            is_alone = part == "down" or not tensors.gate
            whole = _fused_shape(shape, plan.layers[int(number)].routed, tensors, is_alone=is_alone)
            read[stored] = expert, take(stored, whole, TensorSlice(0, expert, expert + 1))[0]
        yield name, np.ascontiguousarray(_part_of(read[stored][1], part, tensors))


def _fused_shape(shape: Shape, experts: Any, tensors: ExpertTensors, *, is_alone: bool) -> Shape:
    """Return the shape of the tensor that holds all experts, given that of a tensor of the step."""
    rows = shape[0] if is_alone else 2 * shape[0]
    each = (rows, *shape[1:])
    return (experts.num_experts, *(each[::-1] if tensors.is_transposed else each))


def _part_of(array: NDArray[Any], part: str, tensors: ExpertTensors) -> NDArray[Any]:
    """Return the rows of one expert's weight or bias that belong to gate, up or down."""
    rows = array.T if tensors.is_transposed else array
    if part == "down" or not tensors.gate:
        return rows
    if tensors.is_interleaved:
        return rows[0::2] if part == "gate" else rows[1::2]
    half = len(rows) // 2
    return rows[:half] if part == "gate" else rows[half:]
