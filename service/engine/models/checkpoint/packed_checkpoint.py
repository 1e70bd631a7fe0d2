"""A folder of safetensors files with packed weights, read as if they were not packed."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from service.engine.models.checkpoint.checkpoint import TYPES, Checkpoint, TensorSlice, bits_as_floats
from service.engine.models.checkpoint.packed import PackedWeight, Stored, find_packing, packing_refusal
from service.generation.errors import ModelLoadError


class PackedCheckpoint(Checkpoint):
    """The tensors by their usual names. A packed one is widened to float32 when it is taken, and nothing is kept."""

    def __init__(self, folder: Path, names: Callable[[str], str | None] | None, said: dict[str, Any]) -> None:
        """`said` is the configuration's `quantization_config`, to which `packing_refusal` has no objection."""
        super().__init__(folder, names)
        stored = {name: Stored(place.kind, place.shape) for name, place in self._places.items()}
        try:
            packing = find_packing(stored, said, self._read)
        except (KeyError, ValueError, TypeError, ZeroDivisionError) as error:
            raise ModelLoadError(f"{folder}: its packed weights can't be read: {error!r}") from error
        self._packed = {weight.name: weight for weight in packing.weights}
        parts = {part for weight in packing.weights for part in weight.parts.values()}
        self._hidden = (parts | set(packing.spare)) - self._packed.keys()

    def __contains__(self, name: str) -> bool:
        return name in self._packed or (super().__contains__(name) and name not in self._hidden)

    def shape(self, name: str) -> tuple[int, ...]:
        """The tensor's shape, once it is widened."""
        return self._packed[name].shape if name in self._packed else super().shape(name)

    def describe(self) -> list[tuple[str, tuple[int, ...], str]]:
        """Name, shape and type of every tensor, sorted by name; a packed one's type is that of its codes."""
        plain = [each for each in super().describe() if each[0] not in self._hidden | self._packed.keys()]
        packed = [
            (weight.name, weight.shape, self._places[weight.parts["codes"]].kind) for weight in self._packed.values()
        ]
        return sorted(plain + packed)

    def take(self, name: str, shape: Sequence[int], part: TensorSlice | None = None) -> npt.NDArray[Any]:
        """Read one tensor, or a part of it; a packed one as float32, of which all has to be read."""
        weight = self._packed.get(name)
        if weight is None:
            return super().take(name, shape, part)
        if weight.shape != tuple(shape):
            raise ModelLoadError(
                f"{self.folder}: {name} has the shape {list(weight.shape)}, the configuration asks for {list(shape)}"
            )
        widened = self._widened(weight)
        if part is None:
            return widened
        return np.ascontiguousarray(widened[(slice(None),) * part.axis + (slice(part.start, part.end),)])

    def _widened(self, weight: PackedWeight) -> npt.NDArray[np.float32]:
        tensors = {role: self._read(stored) for role, stored in weight.parts.items()}
        self._taken |= set(weight.parts.values())
        try:
            widened = weight.widen(tensors)
        except (KeyError, ValueError, TypeError, IndexError, ZeroDivisionError) as error:
            raise ModelLoadError(f"{self.folder}: {weight.name} can't be widened: {error!r}") from error
        if widened.shape != weight.shape:
            raise ModelLoadError(f"{self.folder}: {weight.name} can't be widened: its parts don't fit each other")
        return widened

    @property
    def dtype(self) -> str:
        """The type of most of what isn't packed: a few tensors that the model keeps wide don't make all of it so."""
        sizes = Counter[str]()
        for name, shape, kind in self.describe():
            if not self.is_packed(name) and kind in TYPES:
                sizes[TYPES[kind]] += math.prod(shape)
        return sizes.most_common(1)[0][0] if sizes else "bfloat16"

    def is_packed(self, name: str) -> bool:
        """Whether a tensor is widened as it is taken, so that its stored type says nothing of it."""
        return name in self._packed

    def require_all_taken(self, known: Iterable[str] = ()) -> None:
        """As of any checkpoint; what scales activations or caches is known."""
        self._taken |= self._hidden
        super().require_all_taken(known)

    def _read(self, stored: str) -> npt.NDArray[Any]:
        """A tensor as it lies in its file; bfloat16 and powers of two as float32."""
        place = self._places[stored]
        tensor = super().take(stored, place.shape)
        if place.kind == "F8_E8M0":  # powers of two
            return np.ldexp(np.float32(1), tensor.astype(np.int32) - 127).astype(np.float32)
        return bits_as_floats(tensor) if place.kind == "BF16" else tensor


def quantization_of(folder: Path) -> dict[str, Any] | None:
    """What `folder`/config.json says of how its weights were quantised; None if they weren't, or it can't be read."""
    try:
        said = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return quantization_in(said) if isinstance(said, dict) else None


def quantization_in(said: dict[str, Any]) -> dict[str, Any] | None:
    """The same of a configuration, or of the text model's in it."""
    text = said.get("text_config")
    found = said.get("quantization_config") or (text.get("quantization_config") if isinstance(text, dict) else None)
    return found if isinstance(found, dict) and found else None


def check_packing(folder: Path, said: dict[str, Any]) -> None:
    """Raise ModelLoadError if weights that are quantised as this says can't be read."""
    if (refusal := packing_refusal(said)) is not None:
        raise ModelLoadError(f"{folder}: {refusal}")


def refuse_packed(folder: Path) -> None:
    """Raise ModelLoadError for an encoder whose weights are quantised."""
    if quantization_of(folder) is not None:
        raise ModelLoadError(f"{folder}: an encoder's weights can't be read where they are quantised")
