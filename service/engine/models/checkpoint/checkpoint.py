"""A folder of safetensors files, read tensor by tensor, so that a load takes one tensor above the model's final size.

Tensors are copied, not mapped. Mapped pages stay resident until the file is closed, so a load would hold the whole file
in addition to the weights, and a file that is rewritten in place would crash the process.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from service.generation.errors import ModelLoadError

_INDEX = "model.safetensors.index.json"
_PICKLES = {".bin", ".pt", ".pth", ".ckpt"}
_NUM_SAMPLES, _SAMPLE_BYTES = 64, 4096
# Tensors of old files that follow from the configuration: positions, masks, and frequencies.
_DERIVED = ("position_ids", ".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq")
TYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_TABLES = ("I64", "BOOL")  # types of lookup tables, which are not weights
# bfloat16 and 8-bit floating types are read as their bits.
_ARRAY_TYPES = {
    "F32": np.float32, "F16": np.float16, "BF16": np.uint16, "F8_E4M3": np.uint8, "F8_E5M2": np.uint8,
    "F8_E8M0": np.uint8, "U8": np.uint8, "I8": np.int8, "I32": np.int32, "I64": np.int64,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TensorSlice:
    """A slice of a tensor from `start` up to `end` along `axis`, 0 or 1."""

    axis: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _TensorLocation:
    """The location of a tensor, from its file's header."""

    file: Path
    kind: str
    shape: tuple[int, ...]
    offset: int  # bytes from the start of the file


class Checkpoint:
    """The tensors of a folder by name. Every error is a ModelLoadError with the file's and the tensor's name."""

    def __init__(
        self, folder: Path, names: Callable[[str], str | None] | None = None, files: Sequence[Path] | None = None
    ) -> None:
        """`names` maps stored names to the names used here, or to None for tensors to skip; default: unchanged.

        `files` are the files to read; None: the model's files in the folder.
        """
        self.folder = folder
        self.on_read: Callable[[int], None] | None = None  # called with the size of each tensor when it is read
        self._files = weight_files(folder) if files is None else list(files)
        self._locations: dict[str, _TensorLocation] = {}
        self._taken: set[str] = set()
        for file in self._files:
            for stored, location in _locations_in(file).items():
                if (name := names(stored) if names else stored) is not None:
                    self._locations[name] = location

    def __contains__(self, name: str) -> bool:
        return name in self._locations

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor, which must exist."""
        return self._locations[name].shape

    def describe(self) -> list[tuple[str, tuple[int, ...], str]]:
        """Return the name, shape and type of each tensor, sorted by name."""
        return [(name, location.shape, location.kind) for name, location in sorted(self._locations.items())]

    @property
    def block_type(self) -> str | None:
        """The type of most weights if they are served in their files' blocks; None if they are numbers."""
        return None

    @property
    def input_orders(self) -> Mapping[str, npt.NDArray[np.int32]]:
        """The inputs of the columns of `take_blocks`, by the names of matrices whose columns are in another order."""
        return {}

    def is_packed(self, name: str) -> bool:
        """Return whether a tensor is packed."""
        del name
        return False

    def stores_rows(self, name: str) -> bool:
        """Return whether the rows of a matrix of latents or of a recurrent layer are stored in blocks, in any order."""
        del name
        return False

    def kind(self, name: str) -> str:
        """Return the native step's name of a matrix' block type."""
        raise ModelLoadError(f"{self.folder}: {name} is not stored in blocks")

    def take_blocks(self, name: str, shape: Sequence[int], part: TensorSlice | None = None) -> npt.NDArray[Any]:
        """Read a matrix as the blocks of its rows, uint8 [rows, bytes], and a vector as its numbers."""
        del shape, part
        raise ModelLoadError(f"{self.folder}: {name} is not stored in blocks")

    @property
    def num_bytes(self) -> int:
        """The total size of the files."""
        return sum(file.stat().st_size for file in self._files)

    @property
    def memory_bytes(self) -> int:
        """The memory that the weights take in the blocks of the files."""
        return self.num_bytes

    @property
    def num_parameters(self) -> int:
        """The number of elements of all weights."""
        return sum(math.prod(shape) for name, shape, _ in self.describe() if not name.endswith(_DERIVED))

    @property
    def dtype(self) -> str:
        """The common floating type of the weights, float32 if mixed. Raise ModelLoadError for other types."""
        types = set()
        for name, _, kind in self.describe():
            if name.endswith(_DERIVED) or kind in _TABLES:
                continue
            if kind not in TYPES:
                raise _unsupported(self._locations[name].file, name, kind)
            types.add(TYPES[kind])
        return types.pop() if len(types) == 1 else "float32"

    def digest(self) -> str:
        """Return a hash of names, shapes, types and samples of each file, which distinguishes fine-tunes."""
        digest = hashlib.sha256(repr(self.describe()).encode())
        for path in self._files:
            size = path.stat().st_size
            with path.open("rb") as file:
                for index in range(_NUM_SAMPLES):
                    file.seek(size * index // _NUM_SAMPLES)
                    digest.update(file.read(_SAMPLE_BYTES))
        return digest.hexdigest()

    def versions(self) -> list[tuple[str, int, int, int]]:
        """Return the name, size, inode and time of change of each file, which differ after a change of its content."""
        found = [(path.name, path.stat()) for path in self._files]
        return [(name, status.st_size, status.st_ino, status.st_mtime_ns) for name, status in found]

    def content_digest(self) -> str:
        """Return a hash of all bytes of the files, which takes about half a second per gigabyte."""
        digest = hashlib.sha256()
        for path in self._files:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()

    def take(self, name: str, shape: Sequence[int], part: TensorSlice | None = None) -> npt.NDArray[Any]:
        """Read one tensor, or a slice of it, in its stored type; bfloat16 is returned as its bits, uint16.

        `shape` is the expected shape of the whole tensor. Only the slice is read.
        """
        if name not in self._locations:
            raise ModelLoadError(f"{self.folder}: the tensor {name} is missing")
        location = self._locations[name]
        if location.shape != tuple(shape):
            raise ModelLoadError(
                f"{location.file}: {name} has the shape {list(location.shape)}, "
                f"the configuration requires {list(shape)}"
            )
        try:
            tensor = _read(location, part)
        except (OSError, ValueError, KeyError) as error:
            raise ModelLoadError(f"{location.file}: {name} can't be read: {error}") from error
        if tensor is None:
            raise ModelLoadError(f"{location.file}: {name} can't be read: the file was truncated")
        self._taken.add(name)
        if self.on_read is not None:
            self.on_read(tensor.nbytes)
        return tensor

    def take_floats(self, name: str, shape: Sequence[int]) -> npt.NDArray[np.float32]:
        """Read one tensor as float32. Raise ModelLoadError for a type whose numbers need a scale or are no weights."""
        if name in self._locations and (location := self._locations[name]).kind not in TYPES:
            raise _unsupported(location.file, name, location.kind)
        array = self.take(name, shape)
        return bits_as_floats(array) if array.dtype == np.uint16 else array.astype(np.float32)

    def require_all_taken(self, known: Iterable[str] = ()) -> None:
        """Raise ModelLoadError if a tensor was not read, unless its name ends with one of `known`."""
        known = tuple(known)
        left = sorted(name for name in self._locations if name not in self._taken and not name.endswith(known))
        if left:
            more = f" and {len(left) - 1} more" if len(left) > 1 else ""
            raise ModelLoadError(f"{self._locations[left[0]].file}: unexpected tensor {left[0]}{more}")


def _read(location: _TensorLocation, part: TensorSlice | None) -> npt.NDArray[Any] | None:
    """Return the tensor or its slice, or None if the file is too short."""
    dtype = np.dtype(_ARRAY_TYPES[location.kind])
    if part is None:
        part = TensorSlice(0, 0, location.shape[0] if location.shape else 1)
    shape = list(location.shape)
    row_bytes = math.prod(shape[1:]) * dtype.itemsize
    if part.axis == 0:
        shape[:1] = [part.end - part.start][: len(shape)]
        tensor = np.empty(shape, dtype)
        regions = [(tensor, part.start * row_bytes)]
    else:
        shape[1] = part.end - part.start
        tensor = np.empty(shape, dtype)
        first = part.start * (row_bytes // location.shape[1])
        regions = [(tensor[row], row * row_bytes + first) for row in range(shape[0])]
    with location.file.open("rb", buffering=0) as file:
        for region, offset in regions:
            if not _fill(file.fileno(), region, location.offset + offset):
                return None
    return tensor


def _unsupported(file: Path, name: str, kind: str) -> ModelLoadError:
    return ModelLoadError(f"{file}: {name} has the type {kind}; weights are F32, F16 or BF16")


def bits_as_floats(bits: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    """Convert the bits of bfloat16 numbers to float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _fill(descriptor: int, region: npt.NDArray[Any], offset: int) -> bool:
    """Fill a contiguous array from the file. Return False if the file is too short."""
    view = region.reshape(-1).view(np.uint8).data
    while view:
        num_read = os.preadv(descriptor, [view], offset)
        if num_read == 0:
            return False
        view, offset = view[num_read:], offset + num_read
    return True


def _locations_in(file: Path) -> dict[str, _TensorLocation]:
    """Return the position of each tensor in a safetensors file. Raise ModelLoadError if it can't be read."""
    try:
        with safe_open(file, framework="numpy"):  # checks the header and the file's length
            pass
        with file.open("rb") as opened:
            (size,) = struct.unpack("<Q", opened.read(8))
            header = json.loads(opened.read(size))
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelLoadError(f"{file} can't be read as safetensors: {error}") from error
    header.pop("__metadata__", None)
    return {
        name: _TensorLocation(file, entry["dtype"], tuple(entry["shape"]), 8 + size + entry["data_offsets"][0])
        for name, entry in header.items()
    }


def weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files of a model's folder. Raise ModelLoadError if there are none, or one is missing."""
    single, index = folder / "model.safetensors", folder / _INDEX
    if single.is_file():
        return [single]
    if not index.is_file():
        raise ModelLoadError(f"{folder} holds neither model.safetensors nor {_INDEX}{_unsupported_files_hint(folder)}")
    try:
        names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise ModelLoadError(f"{index} can't be read: {error}") from error
    files = [folder / str(name) for name in names]
    for file in files:
        if not file.is_file():
            raise ModelLoadError(f"{file} is named in {_INDEX} and missing")
    return files


def _unsupported_files_hint(folder: Path) -> str:
    """Return what to do about a folder whose weights have another format; empty if there is nothing to advise."""
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in _PICKLES | {".gguf"})
    if not files:
        return "; weights in other formats must be converted first (docs/models/checkpoints.md)"
    if files[0].suffix.lower() == ".gguf":
        return f"; its GGUF file is served by its own name: {files[0]}"
    return (
        f"; {files[0].name} is a pickle, which is not read because it can run code. Convert a file that you trust, as "
        "transformers.AutoModel's from_pretrained and save_pretrained do, or choose a model that is published as "
        "safetensors (docs/models/checkpoints.md)"
    )
