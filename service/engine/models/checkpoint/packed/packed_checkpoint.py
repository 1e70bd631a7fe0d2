"""A folder of safetensors files with packed weights, which are dequantized when they are read."""

from __future__ import annotations

import json
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from service.engine.models.checkpoint.checkpoint import TYPES, Checkpoint, TensorSlice, bits_as_floats
from service.engine.models.checkpoint.packed.blocks import input_order
from service.engine.models.checkpoint.packed.expert_views import ExpertView, expert_views
from service.engine.models.checkpoint.packed.packed_weight import PackedWeight, Stored
from service.engine.models.checkpoint.packed.weights import find_packing, packing_unsupported_reason
from service.generation.errors import ModelLoadError

_UNKNOWN = "unknown"  # whether all weights have blocks, before they are examined

_log = logging.getLogger(__name__)


class PackedCheckpoint(Checkpoint):
    """The tensors by their usual names. A packed tensor is read as float32 or as blocks; none is cached."""

    def __init__(self, folder: Path, names: Callable[[str], str | None] | None, quantization: dict[str, Any]) -> None:
        """`quantization` is the configuration's `quantization_config`, which must be supported."""
        super().__init__(folder, names)
        stored = {name: Stored(location.kind, location.shape) for name, location in self._locations.items()}
        try:
            packing = find_packing(stored, quantization, self._read)
        except (KeyError, ValueError, TypeError, ZeroDivisionError) as error:
            raise ModelLoadError(f"{folder}: its packed weights can't be read: {error!r}") from error
        self._block_type: str | None = _UNKNOWN
        self._input_orders: dict[str, npt.NDArray[np.int32]] = {}
        self._packed = {weight.name: weight for weight in packing.weights}
        parts = {part for weight in packing.weights for part in weight.parts.values()}
        self._hidden = (parts | set(packing.ignored)) - self._packed.keys()
        of_experts = {weight.name: weight.shape for weight in packing.weights if weight.is_sliceable}
        others = ((name, each.shape) for name, each in stored.items() if name not in self._hidden) if of_experts else ()
        self._views = expert_views(of_experts, others)

    def __contains__(self, name: str) -> bool:
        return name in self._packed or name in self._views or (super().__contains__(name) and name not in self._hidden)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the dequantized shape of a tensor."""
        if name in self._views:
            return self._views[name].shape
        return self._packed[name].shape if name in self._packed else super().shape(name)

    def describe(self) -> list[tuple[str, tuple[int, ...], str]]:
        """Return the name, shape and type of each tensor, sorted by name; for a packed one the type of its codes."""
        plain = [each for each in super().describe() if each[0] not in self._hidden | self._packed.keys()]
        packed = [
            (weight.name, weight.shape, self._locations[weight.parts["codes"]].kind) for weight in self._packed.values()
        ]
        return sorted(plain + packed)

    def take(self, name: str, shape: Sequence[int], part: TensorSlice | None = None) -> npt.NDArray[Any]:
        """Read one tensor, or a slice of it. A packed tensor is returned as float32.

        It is read completely, unless its experts are packed one by one and the slice has some of them.
        """
        if name in self._views:
            return _cut(self._take_view(self._views[name]), part)
        weight = self._packed.get(name)
        if weight is None:
            return super().take(name, shape, part)
        if weight.shape != tuple(shape):
            raise ModelLoadError(
                f"{self.folder}: {name} has the shape {list(weight.shape)}, the configuration requires {list(shape)}"
            )
        if part is not None and part.axis == 0 and weight.is_sliceable:
            return self._dequantized(weight, part)
        return _cut(self._dequantized(weight), part)

    def _take_view(self, view: ExpertView) -> npt.NDArray[Any]:
        """Read an expert's matrix as float32, or its bias as it is stored."""
        part = TensorSlice(0, view.expert, view.expert + 1)
        whole = self.take(view.whole, self.shape(view.whole), part)[0]
        rows = whole.T if whole.ndim > 1 else whole  # a packed matrix is [inputs, rows]
        return np.ascontiguousarray(rows[view.first :: view.step])

    @property
    def block_type(self) -> str | None:
        """The type of the packed weights' blocks; None if one of them has none."""
        if self._block_type is _UNKNOWN:
            self._block_type = self._find_block_type()
        return self._block_type

    def _find_block_type(self) -> str | None:
        kinds = [weight.block_kind for weight in self._packed.values()]
        if not kinds or None in kinds:
            return None
        try:
            self._input_orders = dict(self._find_orders())
        except ValueError as error:
            _log.info("%s: all packed weights are dequantized: %s", self.folder, error)
            return None
        return Counter(kinds).most_common(1)[0][0]

    def _find_orders(self) -> Iterator[tuple[str, npt.NDArray[np.int32]]]:
        for weight in self._packed.values():
            if "groups" not in weight.parts:
                continue
            groups = self._read(weight.parts["groups"]).astype(np.int64)
            if (groups < 0).any():  # they are in order
                continue
            try:
                order = input_order(groups, weight.num_groups)
            except ValueError as error:
                raise ValueError(f"{weight.name}: {error}") from error
            if order is not None:
                yield weight.name, order

    @property
    def input_orders(self) -> Mapping[str, npt.NDArray[np.int32]]:
        """The inputs of each column of the blocks of matrices whose groups are not in the order of their inputs."""
        return self._input_orders if self.block_type is not None else {}

    def kind(self, name: str) -> str:
        """Return the native step's name of a matrix' block type."""
        weight = self._packed.get(self._views[name].whole if name in self._views else name)
        if weight is not None and weight.block_kind is not None:
            return weight.block_kind
        if name not in self._locations:
            raise ModelLoadError(f"{self.folder}: the tensor {name} is missing")
        return TYPES[self._locations[name].kind]

    def take_blocks(self, name: str, shape: Sequence[int], part: TensorSlice | None = None) -> npt.NDArray[Any]:
        """Read a matrix as the blocks of its rows, uint8 [rows, bytes], and a vector as its numbers."""
        view = self._views.get(name)
        weight = self._packed.get(name if view is None else view.whole)
        if weight is None or weight.blocks is None:
            tensor = self.take(name, shape, part)
            return tensor if tensor.ndim < 2 else tensor.view(np.uint8)
        if self.shape(name) != tuple(shape) or part is not None:
            raise ModelLoadError(f"{self.folder}: {name} has the shape {list(self.shape(name))}, not {list(shape)}")
        expert = None if view is None else TensorSlice(0, view.expert, view.expert + 1)
        tensors = {role: self._read(stored, expert) for role, stored in weight.parts.items()}
        self._taken |= set(weight.parts.values())
        try:
            blocks = weight.blocks(tensors)
        except (KeyError, ValueError, TypeError, IndexError, ZeroDivisionError) as error:
            raise ModelLoadError(f"{self.folder}: {weight.name} can't be read in blocks: {error}") from error
        if view is not None:
            blocks = np.ascontiguousarray(blocks[0, view.first :: view.step])
        if len(blocks) != shape[0]:
            raise ModelLoadError(
                f"{self.folder}: {weight.name} can't be read in blocks: its parts don't fit each other"
            )
        return blocks

    def _dequantized(self, weight: PackedWeight, part: TensorSlice | None = None) -> npt.NDArray[np.float32]:
        """Return a packed weight, or a slice of its first axis, as float32.

        Raise ModelLoadError if its parts don't fit each other.
        """
        tensors = {role: self._read(stored, part) for role, stored in weight.parts.items()}
        self._taken |= set(weight.parts.values())
        try:
            dequantized = weight.dequantize(tensors)
        except (KeyError, ValueError, TypeError, IndexError, ZeroDivisionError) as error:
            raise ModelLoadError(f"{self.folder}: {weight.name} can't be dequantized: {error!r}") from error
        shape = weight.shape if part is None else (part.end - part.start, *weight.shape[1:])
        if dequantized.shape != shape:
            raise ModelLoadError(f"{self.folder}: {weight.name} can't be dequantized: its parts don't fit each other")
        return dequantized

    @property
    def dtype(self) -> str:
        """The type of most elements that are not packed, because a few tensors may be stored in a wider type."""
        sizes = Counter[str]()
        for name, shape, kind in self.describe():
            if not self.is_packed(name) and kind in TYPES:
                sizes[TYPES[kind]] += math.prod(shape)
        return sizes.most_common(1)[0][0] if sizes else "bfloat16"

    def is_packed(self, name: str) -> bool:
        """Return True if a tensor is packed."""
        return name in self._packed

    def require_all_taken(self, known: Iterable[str] = ()) -> None:
        """Raise ModelLoadError if a tensor was not read; scales of activations and caches are known."""
        self._taken |= self._hidden
        super().require_all_taken(known)

    def _read(self, stored: str, part: TensorSlice | None = None) -> npt.NDArray[Any]:
        """Read a tensor, or a slice of it, as stored; bfloat16 and F8_E8M0 are converted to float32."""
        location = self._locations[stored]
        tensor = super().take(stored, location.shape, part)
        if location.kind == "F8_E8M0":  # powers of two
            return np.ldexp(np.float32(1), tensor.astype(np.int32) - 127).astype(np.float32)
        return bits_as_floats(tensor) if location.kind == "BF16" else tensor


def _cut(tensor: npt.NDArray[Any], part: TensorSlice | None) -> npt.NDArray[Any]:
    """Return a slice of a tensor, or the tensor for None."""
    if part is None:
        return tensor
    return np.ascontiguousarray(tensor[(slice(None),) * part.axis + (slice(part.start, part.end),)])


def quantization_of(folder: Path) -> dict[str, Any] | None:
    """Return the quantization in `folder`/config.json, or None if there is none or the file cannot be read."""
    try:
        quantization = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return quantization_in(quantization) if isinstance(quantization, dict) else None


def quantization_in(quantization: dict[str, Any]) -> dict[str, Any] | None:
    """Return the quantization of a configuration, or of its text model's configuration."""
    text = quantization.get("text_config")
    found = quantization.get("quantization_config") or (
        text.get("quantization_config") if isinstance(text, dict) else None
    )
    return found if isinstance(found, dict) and found else None


def check_packing(folder: Path, quantization: dict[str, Any]) -> None:
    """Raise ModelLoadError if the quantization is not supported."""
    try:
        reason = packing_unsupported_reason(quantization)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ModelLoadError(f"{folder}: its quantization_config can't be read: {error!r}") from error
    if reason is not None:
        raise ModelLoadError(f"{folder}: {reason}")


def reject_packed(folder: Path) -> None:
    """Raise ModelLoadError if the weights of an encoder are quantized."""
    if quantization_of(folder) is not None:
        raise ModelLoadError(f"{folder}: quantized weights are not supported for encoders")
