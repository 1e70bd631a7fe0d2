"""A packed weight: its stored tensors by role, and the functions that turn them into numbers or blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from service.engine.models.checkpoint.packed.blocks import Codes, block_size_of, kind_of, to_blocks
from service.engine.models.checkpoint.packed.dequantize import Array

Read: TypeAlias = Callable[[str], Array]  # a stored tensor by its name


class Stored(NamedTuple):
    """A tensor's type and shape, from its file's header."""

    kind: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PackedWeight:
    """A packed weight: its dequantized shape, and the names of its stored tensors by role."""

    name: str
    shape: tuple[int, ...]
    parts: Mapping[str, str]
    dequantize: Callable[[Mapping[str, Array]], npt.NDArray[np.float32]]
    block_kind: str | None = None  # the native step's name of its blocks; None: it has none
    blocks: Callable[[Mapping[str, Array]], npt.NDArray[np.uint8]] | None = None  # its rows in blocks
    num_groups: int = 0  # of inputs, of a weight with a tensor of the inputs' groups
    is_sliceable: bool = False  # all stored tensors have the weight's first axis, and slices of it are independent


class IntegerWeight(NamedTuple):
    """A weight of integer codes with scales and zero points for groups of inputs."""

    base: str
    shape: tuple[int, ...]
    parts: Mapping[str, str]
    codes: Callable[[Mapping[str, Array]], Codes]
    bits: int
    num_groups: int


def integer_weight(given: IntegerWeight, stored: Mapping[str, Stored]) -> PackedWeight:
    """Return the weight, with the native step's blocks if it has some for the size of the groups."""
    name, codes = f"{given.base}.weight", given.codes
    size, scale_type = block_size_of(given.shape[1], given.num_groups), stored[given.parts["scales"]].kind

    def dequantize(tensors: Mapping[str, Array]) -> npt.NDArray[np.float32]:
        return codes(tensors).numbers

    if size is None:
        return PackedWeight(name, given.shape, given.parts, dequantize)

    def blocks(tensors: Mapping[str, Array]) -> npt.NDArray[np.uint8]:
        found = codes(tensors)
        if found.codes.shape != given.shape:
            raise ValueError("its parts don't fit each other")
        return to_blocks(found, size, scale_type)

    kind = kind_of(given.bits, size, scale_type)
    return PackedWeight(name, given.shape, given.parts, dequantize, kind, blocks, given.num_groups)


def named_groups(
    stored: Mapping[str, Stored], needed: Mapping[str, str], more: Mapping[str, str] | None = None
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each base name that has all needed tensors, with the names of its tensors by role.

    `needed` and the optional `more` map suffixes of names to roles.
    """
    first = next(iter(needed))
    for name in stored:
        base = name.removesuffix(first)
        if base != name and all(f"{base}{end}" in stored for end in needed):
            ends = {**needed, **(more or {})}
            yield base, {role: f"{base}{end}" for end, role in ends.items() if f"{base}{end}" in stored}
