"""A folder of safetensors files, read tensor by tensor, so that a load holds one above the model's final size.

What is read is copied, not mapped: a mapped page stays resident until its file is closed, so that a load would hold the
whole file beside the weights that are made of it, and it would end the process if someone rewrote the file in place.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from service.generation.errors import ModelLoadError

_INDEX = "model.safetensors.index.json"
_NUM_SAMPLES, _SAMPLE_BYTES = 64, 4096
_INDICES = "position_ids"  # what old encoders store beside their weights: 0, 1, 2, …
TYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_TABLES = ("I64", "BOOL")  # types of what is looked up, no weights
# bfloat16 and floating numbers of a byte are read as their bits.
_ARRAY_TYPES = {
    "F32": np.float32, "F16": np.float16, "BF16": np.uint16, "F8_E4M3": np.uint8, "F8_E5M2": np.uint8,
    "F8_E8M0": np.uint8, "U8": np.uint8, "I8": np.int8, "I32": np.int32, "I64": np.int64,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TensorSlice:
    """Of a tensor, what lies from `start` up to `end` along `axis`, 0 or 1."""

    axis: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _TensorLocation:
    """Where a tensor is, as its file's header says."""

    file: Path
    kind: str
    shape: tuple[int, ...]
    offset: int  # bytes from the file's beginning


class Checkpoint:
    """The tensors of a folder by name. Every error is a ModelLoadError that names the file, and the tensor if one."""

    def __init__(
        self, folder: Path, names: Callable[[str], str | None] | None = None, files: Sequence[Path] | None = None
    ) -> None:
        """`names` gives the name that a tensor is asked for by, None for one that is of no use; default: its own.

        `files` are all that counts; None for those of a model.
        """
        self.folder = folder
        self.on_read: Callable[[int], None] | None = None  # called with the bytes of each tensor as it is taken
        self._files = _files_of(folder) if files is None else list(files)
        self._places: dict[str, _TensorLocation] = {}
        self._taken: set[str] = set()
        for file in self._files:
            for stored, place in _places_in(file).items():
                if (name := names(stored) if names else stored) is not None:
                    self._places[name] = place

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def shape(self, name: str) -> tuple[int, ...]:
        """The tensor's shape. The tensor must be there."""
        return self._places[name].shape

    def describe(self) -> list[tuple[str, tuple[int, ...], str]]:
        """Name, shape and type of every tensor, sorted by name."""
        return [(name, place.shape, place.kind) for name, place in sorted(self._places.items())]

    @property
    def num_bytes(self) -> int:
        """Size of the files."""
        return sum(file.stat().st_size for file in self._files)

    @property
    def num_parameters(self) -> int:
        """Elements of all tensors but indices."""
        return sum(math.prod(shape) for name, shape, _ in self.describe() if not name.endswith(_INDICES))

    @property
    def dtype(self) -> str:
        """The widest floating type of the tensors, but for indices and tables. Raises ModelLoadError for others."""
        types = set()
        for name, _, kind in self.describe():
            if name.endswith(_INDICES) or kind in _TABLES:
                continue
            if kind not in TYPES:
                file = self._places[name].file
                raise ModelLoadError(f"{file}: {name} has the type {kind}; weights are F32, F16 or BF16")
            types.add(TYPES[kind])
        return types.pop() if len(types) == 1 else "float32"

    def digest(self) -> str:
        """A hash of all names, shapes and types and of samples of each file, so that it tells fine-tunes apart."""
        digest = hashlib.sha256(repr(self.describe()).encode())
        for path in self._files:
            size = path.stat().st_size
            with path.open("rb") as file:
                for index in range(_NUM_SAMPLES):
                    file.seek(size * index // _NUM_SAMPLES)
                    digest.update(file.read(_SAMPLE_BYTES))
        return digest.hexdigest()

    def take(self, name: str, shape: Sequence[int], part: TensorSlice | None = None) -> npt.NDArray[Any]:
        """Read one tensor, or a part of it, in the type it is stored in; bfloat16 as its bits, uint16.

        `shape` is the whole tensor's. Of a tensor that a part is taken of, nothing else is read.
        """
        if name not in self._places:
            raise ModelLoadError(f"{self.folder}: the tensor {name} is missing")
        place = self._places[name]
        if place.shape != tuple(shape):
            raise ModelLoadError(
                f"{place.file}: {name} has the shape {list(place.shape)}, the configuration asks for {list(shape)}"
            )
        try:
            tensor = _read(place, part)
        except (OSError, ValueError, KeyError) as error:
            raise ModelLoadError(f"{place.file}: {name} can't be read: {error}") from error
        if tensor is None:
            raise ModelLoadError(f"{place.file}: {name} can't be read: the file has become shorter")
        self._taken.add(name)
        if self.on_read is not None:
            self.on_read(tensor.nbytes)
        return tensor

    def require_all_taken(self, known: Iterable[str] = ()) -> None:
        """Raise ModelLoadError if a tensor was not taken, unless its name ends with one of `known`."""
        known = tuple(known)
        left = sorted(name for name in self._places if name not in self._taken and not name.endswith(known))
        if left:
            more = f" and {len(left) - 1} more" if len(left) > 1 else ""
            raise ModelLoadError(f"{self._places[left[0]].file}: the model has no use for the tensor {left[0]}{more}")


def _read(place: _TensorLocation, part: TensorSlice | None) -> npt.NDArray[Any] | None:
    """The tensor or its part; None if the file ends before it does."""
    dtype = np.dtype(_ARRAY_TYPES[place.kind])
    if part is None:
        part = TensorSlice(0, 0, place.shape[0] if place.shape else 1)
    shape = list(place.shape)
    row_bytes = math.prod(shape[1:]) * dtype.itemsize
    if part.axis == 0:
        shape[:1] = [part.end - part.start][: len(shape)]
        tensor = np.empty(shape, dtype)
        pieces = [(tensor, part.start * row_bytes)]
    else:
        shape[1] = part.end - part.start
        tensor = np.empty(shape, dtype)
        first = part.start * (row_bytes // place.shape[1])
        pieces = [(tensor[row], row * row_bytes + first) for row in range(shape[0])]
    with place.file.open("rb", buffering=0) as file:
        for piece, offset in pieces:
            if not _fill(file.fileno(), piece, place.offset + offset):
                return None
    return tensor


def bits_as_floats(bits: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    """The numbers whose bits in bfloat16 are these."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _fill(descriptor: int, piece: npt.NDArray[Any], offset: int) -> bool:
    """Read into the whole of a contiguous array; False if the file ends before."""
    view = piece.reshape(-1).view(np.uint8).data
    while view:
        num_read = os.preadv(descriptor, [view], offset)
        if num_read == 0:
            return False
        view, offset = view[num_read:], offset + num_read
    return True


def _places_in(file: Path) -> dict[str, _TensorLocation]:
    try:
        with safe_open(file, framework="numpy"):  # which checks the header, and that the file is as long as it says
            pass
        with file.open("rb") as opened:
            (size,) = struct.unpack("<Q", opened.read(8))
            header = json.loads(opened.read(size))
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelLoadError(f"{file} can't be read as safetensors: {error}") from error
    header.pop("__metadata__", None)
    return {
        name: _TensorLocation(file, said["dtype"], tuple(said["shape"]), 8 + size + said["data_offsets"][0])
        for name, said in header.items()
    }


def _files_of(folder: Path) -> list[Path]:
    single, index = folder / "model.safetensors", folder / _INDEX
    if single.is_file():
        return [single]
    if not index.is_file():
        raise ModelLoadError(f"{folder} holds neither model.safetensors nor {_INDEX}")
    try:
        names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise ModelLoadError(f"{index} can't be read: {error}") from error
    files = [folder / str(name) for name in names]
    for file in files:
        if not file.is_file():
            raise ModelLoadError(f"{file} is named in {_INDEX} and missing")
    return files
