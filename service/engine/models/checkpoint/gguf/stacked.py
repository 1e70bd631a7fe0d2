"""The tensors of a layer's experts in checkpoints that have one for all of them, of which files have parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count, takewhile
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from service.engine.models.checkpoint.gguf.architectures import StackedExperts
from service.engine.models.checkpoint.gguf.header import GgufTensor
from service.engine.models.checkpoint.gguf.restored import Assembled

Array = npt.NDArray[Any]
Shape = tuple[int, ...]

_EXPERT: Final = ".mlp.experts."
_FIRST: Final = f"{_EXPERT}0.down_proj."
_SHARED: Final = ".mlp.shared_expert."
_GATE_AND_UP: Final = ("gate_proj", "up_proj")


def stacked_experts(tensors: Mapping[str, GgufTensor], form: StackedExperts) -> Iterator[tuple[str, Assembled]]:
    """Yield the tensors of a checkpoint that have these tensors of experts as their parts.

    One whose parts are missing or differ in shape is not yielded.
    """
    for name in tensors:
        layer, first, kind = name.partition(_FIRST)
        if first and kind in form.ends:
            for module, modules in ((form.down, ("down_proj",)), (form.gate_up, _GATE_AND_UP)):
                names = _of_all(tensors, layer, modules, kind)
                if (each := _common_shape(tensors, names)) is not None:
                    assembled = _stacked(names, each, len(modules), form)
                    yield f"{layer}.{module}{form.ends[kind]}", assembled
        layer, first, kind = name.partition(f"{_SHARED}gate_proj.")
        if first and form.shared:
            names = [f"{layer}{_SHARED}{module}.{kind}" for module in _GATE_AND_UP]
            if (each := _common_shape(tensors, names)) is not None:
                shape = (2 * each[0], *each[1:])
                yield f"{layer}.{form.shared}.{kind}", Assembled(dict.fromkeys(names, each), shape, _concatenated)


def _of_all(tensors: Mapping[str, GgufTensor], layer: str, modules: tuple[str, ...], kind: str) -> list[str]:
    """Return the names of tensors of these modules of each of a layer's experts."""
    stems = takewhile(lambda stem: f"{stem}.down_proj.{kind}" in tensors, (f"{layer}{_EXPERT}{i}" for i in count()))
    return [f"{stem}.{module}.{kind}" for stem in stems for module in modules]


def _common_shape(tensors: Mapping[str, GgufTensor], names: Sequence[str]) -> Shape | None:
    """Return the shape that all of the tensors have, or None if one is missing or has another."""
    shapes = {tensors[name].shape if name in tensors else None for name in names}
    return shapes.pop() if len(shapes) == 1 else None


def _stacked(names: Sequence[str], each: Shape, num_modules: int, form: StackedExperts) -> Assembled:
    """Return a tensor of all experts, given the names of its parts and the shape that each of them has."""
    rows, *columns = each
    expert = (rows * num_modules, *columns)
    shape = (len(names) // num_modules, *(expert[::-1] if form.is_transposed else expert))
    return Assembled(
        dict.fromkeys(names, each), shape, partial(_stack, shape=shape, num_modules=num_modules, form=form)
    )


def _concatenated(parts: Iterable[Array]) -> Array:
    return np.concatenate(list(parts))


def _stack(parts: Iterable[Array], *, shape: Shape, num_modules: int, form: StackedExperts) -> Array:
    """Return the rows of all experts, given those of each module of each expert."""
    whole = np.empty(shape, np.float32)
    for index, rows in enumerate(parts):
        expert, module = divmod(index, num_modules)
        own = whole[expert].T if form.is_transposed else whole[expert]
        if form.is_interleaved:
            own[module::num_modules] = rows
        else:
            own[module * len(rows) : (module + 1) * len(rows)] = rows
    return whole
