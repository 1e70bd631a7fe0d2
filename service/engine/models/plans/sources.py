"""The tensors of a checkpoint that the step's tensors are made of.

The step names its tensors like Llama's checkpoints. A family's table says which module of its own checkpoints, and
which rows of it, each module of the step consists of. All transformations are exact.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.engine.models.checkpoint.checkpoint import TensorSlice, bits_as_floats
from service.engine.models.plans.expert_sources import ExpertTensors, is_expert_tensor, read_experts
from service.engine.models.plans.plan import DecoderPlan, LayerPlan, RecurrentPlan

Shape: TypeAlias = tuple[int, ...]
Rows: TypeAlias = slice | NDArray[np.intp]
RowsOf: TypeAlias = Callable[[DecoderPlan, LayerPlan], Rows]
# Returns a checkpoint's tensor, or a slice of it; bfloat16 as its bits. The shape is the whole tensor's.
Take: TypeAlias = Callable[[str, Shape, TensorSlice | None], NDArray[Any]]

_LAYERS = "model.layers."
_KINDS = ("weight", "bias")
_CONVOLUTION_AXES = 3


@dataclass(frozen=True, slots=True)
class Source:
    """What a module of the step is made of."""

    module: str  # of the checkpoint, in its layer; empty: nothing, each number is `constant`
    rows: RowsOf | None = None  # the rows of the checkpoint's tensor, in the step's order; None: all
    added: float = 0.0  # to each weight, as in norms whose weight is stored without 1
    constant: float | None = None
    is_row: bool = False  # a vector that is stored as a matrix of one row
    is_by_head: bool = False  # a vector that is stored as a matrix with a row for each head
    is_convolution: bool = False  # the weights of a convolution [channels, 1, taps], which the step reads by taps
    is_log_rates: bool = False  # logarithms [channels, key_dim] of the rates, which the step reads by key_dim
    has_bias: bool = True  # otherwise the step's bias is zeros
    parts: tuple[tuple[str, Shape], ...] = ()  # tensors of the module that `combine` makes the step's tensor of
    combine: Callable[..., NDArray[np.float32]] | None = None
    module_of: Callable[[LayerPlan], str] | None = None  # replaces `module` where it depends on the layer


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensors:
    """A family's tensors: the table of the modules that differ from Llama's, and the names around them."""

    modules: Mapping[str, Source]  # by the step's module, without "model.layers.N."
    layers: str = "model.layers.{}."
    experts: ExpertTensors | None = None  # the names of experts' tensors; None: no layer has experts
    sign: str = ""  # a tensor that only checkpoints with these names have; empty: the embedding, or experts
    unused: tuple[str, ...] = ()  # ends of the names of tensors that follow from the configuration
    # The beginnings of the names of parts that predict further tokens; `{}` is the number of layers.
    predictors: tuple[str, ...] = ()

    def unused_in(self, names: Iterable[str], plan: DecoderPlan) -> list[str]:
        """Return those of a checkpoint's names that the step has no use for."""
        prefixes = tuple(prefix.format(len(plan.layers)) for prefix in self.predictors)
        return [name for name in names if name.startswith(prefixes) or name.endswith(self.unused)]


@dataclass(frozen=True, slots=True)
class Origin:
    """A tensor of the step, and the checkpoint's tensor that it is made of."""

    name: str  # in the checkpoint; empty: none
    rows: Rows | None
    source: Source
    added: float

    @property
    def is_stored_alike(self) -> bool:
        """True if the checkpoint's tensor has the shape and the order of the step's."""
        source = self.source
        is_reshaped = source.is_row or source.is_by_head or source.is_convolution or source.is_log_rates
        return bool(self.name) and self.rows is None and not is_reshaped and source.combine is None

    def with_addend(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return the numbers of the step's tensor, given the checkpoint's."""
        return as_floats(array) + np.float32(self.added) if self.added else array


def origin_of(name: str, plan: DecoderPlan, tensors: Tensors) -> Origin:
    """Return where the step's tensor `name` comes from."""
    number, within = "", name
    if name.startswith(_LAYERS):
        number, _, within = name.removeprefix(_LAYERS).partition(".")
    stem, _, kind = within.rpartition(".")
    if kind not in _KINDS:
        stem, kind = within, ""
    source = tensors.modules.get(stem) or Source(stem)
    if kind == "bias" and not source.has_bias:
        source = Source("", constant=0.0)
    module = source.module if source.module_of is None else source.module_of(plan.layers[int(number)])
    prefix = tensors.layers.format(number) if number else ""
    stored = f"{prefix}{module}{'.' if kind else ''}{kind}" if module else ""
    rows = None if source.rows is None else source.rows(plan, plan.layers[int(number)])
    return Origin(stored, rows, source, source.added if kind == "weight" else 0.0)


def whole_shapes(shapes: Mapping[str, Shape], origins: Mapping[str, Origin], plan: DecoderPlan) -> dict[str, Shape]:
    """Return the shapes of the checkpoint's tensors, given those of the step's."""
    num_rows: dict[str, int] = defaultdict(int)
    for name, origin in origins.items():
        num_rows[origin.name] += shapes[name][0]
    whole = {}
    for name, origin in origins.items():
        rows = num_rows[origin.name] if origin.rows is not None else shapes[name][0]
        whole[origin.name] = (rows, *shapes[name][1:])
        if origin.source.is_row:
            whole[origin.name] = (1, rows)
        if origin.source.is_convolution and name.endswith(".weight"):
            taps = _mixer(plan, name).taps
            whole[origin.name] = (rows // taps, 1, taps)
        if origin.source.is_log_rates:
            key_dim = _mixer(plan, name).key_dim
            whole[origin.name] = (rows // key_dim, key_dim)
        if origin.source.is_by_head:
            head_dim = plan.layers[int(name.removeprefix(_LAYERS).partition(".")[0])].heads.head_dim
            whole[origin.name] = (rows // head_dim, head_dim)
    return whole


def read_tensors(
    shapes: Mapping[str, Shape],
    plan: DecoderPlan,
    tensors: Tensors,
    take: Take,
    part_of: Callable[[str], TensorSlice | None] = lambda _: None,
) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the step's tensors, whose shapes are given. A checkpoint's tensor that holds several is read once.

    `part_of` returns the slice of a tensor that is yielded, by the tensor's name; None: the whole tensor. If the
    checkpoint stores the tensor as it is, only the slice is read.
    """
    expert_shapes = {name: shape for name, shape in shapes.items() if is_expert_tensor(name)}
    origins = {name: origin_of(name, plan, tensors) for name in shapes if name not in expert_shapes}
    whole = whole_shapes(shapes, origins, plan)
    last, array = "", np.empty(0, np.float32)
    for name, origin in origins.items():
        part = part_of(name)
        if origin.is_stored_alike:
            yield name, origin.with_addend(take(origin.name, whole[origin.name], part))
        elif origin.source.combine is not None:
            pieces = [as_floats(take(f"{origin.name}.{piece}", shape, None)) for piece, shape in origin.source.parts]
            yield name, cut(origin.source.combine(*pieces), part)
        elif not origin.name:
            yield name, cut(np.full(shapes[name], origin.source.constant, np.float32), part)
        else:
            if origin.name != last:
                last, array = origin.name, take(origin.name, whole[origin.name], None)
            flat = array.reshape(-1) if origin.source.is_by_head or origin.source.is_row else array
            if flat.ndim == _CONVOLUTION_AXES:
                flat = np.ascontiguousarray(flat[:, 0].T).reshape(-1)
            if origin.source.is_log_rates:
                flat = np.exp(as_floats(flat).T).reshape(-1)
            own = flat if origin.rows is None else np.ascontiguousarray(flat[origin.rows])
            yield name, cut(origin.with_addend(own), part)
    if tensors.experts is not None:
        for name, expert in read_experts(expert_shapes, plan, tensors.experts, tensors.layers, take):
            yield name, cut(expert, part_of(name))


def cut(array: NDArray[Any], part: TensorSlice | None) -> NDArray[Any]:
    """Return a slice of an array, or all of it."""
    if part is None:
        return array
    return np.ascontiguousarray(array[(slice(None),) * part.axis + (slice(part.start, part.end),)])


def _mixer(plan: DecoderPlan, name: str) -> RecurrentPlan:
    return plan.layers[int(name.removeprefix(_LAYERS).partition(".")[0])].mixer


def as_floats(array: NDArray[Any]) -> NDArray[np.float32]:
    """Return a checkpoint's numbers as float32."""
    return bits_as_floats(array) if array.dtype == np.uint16 else array.astype(np.float32)
