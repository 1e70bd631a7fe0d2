"""A folder of safetensors files, read tensor by tensor, so that a load holds one above the model's final size.

What is read is copied, not mapped: a mapped page stays resident until its file is closed, so that a load would hold the
whole file beside the weights that are made of it, and it would end the process if someone rewrote the file in place.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from service.generation.errors import ModelLoadError

_INDEX = "model.safetensors.index.json"
_NUM_SAMPLES, _SAMPLE_BYTES = 64, 4096
_INDICES = "position_ids"  # what old encoders store beside their weights: 0, 1, 2, …
_TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


class Checkpoint:
    """The tensors of a folder by name. Every error is a ModelLoadError that names the file, and the tensor if one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.on_read: Callable[[int], None] | None = None  # called with the bytes of each tensor as it is taken
        self._files: dict[Path, Any] = {}
        self._file_of: dict[str, Path] = {}
        self._offsets: dict[str, int] = {}  # in the tensor's file, in bytes
        self._taken: set[str] = set()
        for file in _files_of(folder):
            try:
                self._files[file] = safe_open(file, framework="pt")
            except (SafetensorError, OSError) as error:
                raise ModelLoadError(f"{file} can't be read as safetensors: {error}") from error
            self._file_of.update(dict.fromkeys(self._files[file].keys(), file))
            self._offsets.update(_offsets(file))

    def __contains__(self, name: str) -> bool:
        return name in self._file_of

    def shape(self, name: str) -> tuple[int, ...]:
        """The tensor's shape. The tensor must be there."""
        return tuple(self._slice(name).get_shape())

    def describe(self) -> list[tuple[str, tuple[int, ...], str]]:
        """Name, shape and type of every tensor, sorted by name."""
        return [(name, self.shape(name), self._slice(name).get_dtype()) for name in sorted(self._file_of)]

    @property
    def num_bytes(self) -> int:
        """Size of the files."""
        return sum(file.stat().st_size for file in self._files)

    @property
    def num_parameters(self) -> int:
        """Elements of all tensors but indices."""
        return sum(math.prod(shape) for name, shape, _ in self.describe() if not name.endswith(_INDICES))

    @property
    def dtype(self) -> torch.dtype:
        """The widest floating type among the tensors, indices aside. Raises ModelLoadError for any other type."""
        types = set()
        for name, _, kind in self.describe():
            if name.endswith(_INDICES):
                continue
            types.add(self._type(name, kind))
        return types.pop() if len(types) == 1 else torch.float32

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

    def take(self, name: str, shape: Sequence[int]) -> Tensor:
        """Read one tensor, in the type it is stored in."""
        if name not in self._file_of:
            raise ModelLoadError(f"{self.folder}: the tensor {name} is missing")
        if self.shape(name) != tuple(shape):
            raise ModelLoadError(
                f"{self._file_of[name]}: {name} has the shape {list(self.shape(name))}, "
                f"the configuration asks for {list(shape)}"
            )
        dtype = self._type(name, self._slice(name).get_dtype())
        num_bytes = math.prod(shape) * dtype.itemsize
        try:
            read = np.fromfile(self._file_of[name], np.uint8, num_bytes, offset=self._offsets[name])
        except OSError as error:
            raise ModelLoadError(f"{self._file_of[name]}: {name} can't be read: {error}") from error
        if read.nbytes < num_bytes:
            raise ModelLoadError(f"{self._file_of[name]}: {name} can't be read: the file has become shorter")
        self._taken.add(name)
        if self.on_read is not None:
            self.on_read(num_bytes)
        return torch.from_numpy(read).view(dtype).view(tuple(shape))

    def require_all_taken(self, known: Iterable[str] = ()) -> None:
        """Raise ModelLoadError if a tensor was not taken, unless its name ends with one of `known`."""
        known = tuple(known)
        left = sorted(name for name in self._file_of if name not in self._taken and not name.endswith(known))
        if left:
            more = f" and {len(left) - 1} more" if len(left) > 1 else ""
            raise ModelLoadError(f"{self._file_of[left[0]]}: the model has no use for the tensor {left[0]}{more}")

    def _type(self, name: str, kind: str) -> torch.dtype:
        if kind not in _TYPES:
            raise ModelLoadError(f"{self._file_of[name]}: {name} has the type {kind}; weights are F32, F16 or BF16")
        return _TYPES[kind]

    def _slice(self, name: str) -> Any:
        return self._files[self._file_of[name]].get_slice(name)


def _offsets(file: Path) -> dict[str, int]:
    """Where each tensor begins in a safetensors file: its header's size, its header as JSON, then the tensors."""
    with file.open("rb") as opened:
        size = int.from_bytes(opened.read(8), "little")
        header = json.loads(opened.read(size))
    return {name: 8 + size + entry["data_offsets"][0] for name, entry in header.items() if name != "__metadata__"}


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
