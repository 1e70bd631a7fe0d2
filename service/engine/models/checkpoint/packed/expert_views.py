"""The matrices and biases of single experts in tensors that hold all experts of a layer, gate and up in turns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

_WHOLE: Final = re.compile(r"(?P<stem>.*\.experts)\.(?P<part>gate_up_proj|down_proj)(?P<bias>_bias)?")
_PARTS: Final = {"gate_up_proj": (("gate_proj", 0, 2), ("up_proj", 1, 2)), "down_proj": (("down_proj", 0, 1),)}


Shape: TypeAlias = tuple[int, ...]


class ExpertView(NamedTuple):
    """The rows `first`, `first + step`, … of an expert in the tensor `whole`."""

    whole: str
    expert: int
    first: int
    step: int
    shape: tuple[int, ...]  # of the view: [rows, inputs], or of a bias [rows]


def expert_views(packed: Mapping[str, Shape], others: Iterable[tuple[str, Shape]]) -> dict[str, ExpertView]:
    """Return the views by names, as in `…experts.3.gate_proj.weight`.

    `packed` has the shapes [experts, inputs, rows] of packed tensors by names, `others` has further tensors: among
    them are biases, [experts, rows].
    """
    views: dict[str, ExpertView] = {}
    for name, shape in [*packed.items(), *others]:
        if (match := _WHOLE.fullmatch(name)) is None or (match["bias"] is None) != (name in packed):
            continue
        end = "bias" if match["bias"] else "weight"
        for part, first, step in _PARTS[match["part"]]:
            rows = shape[-1] // step
            each = (rows,) if match["bias"] else (rows, shape[1])
            for expert in range(shape[0]):
                views[f"{match['stem']}.{expert}.{part}.{end}"] = ExpertView(name, expert, first, step, each)
    return views
