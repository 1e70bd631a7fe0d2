"""The tensors of GGUF files, by transformers' names."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from service.engine.models.checkpoint.checkpoint import Checkpoint, TensorSlice, bits_as_floats
from service.engine.models.checkpoint.gguf.architectures import ARCHITECTURES, architecture_of
from service.engine.models.checkpoint.gguf.header import GgufHeader, GgufTensor, read_header
from service.engine.models.checkpoint.gguf.names import NOT_WEIGHTS, checkpoint_name, in_halves
from service.engine.models.checkpoint.gguf.restored import (
    ALL_HEADS,
    Assembled,
    as_stored,
    assembled_from,
    grouped_order,
    held_names,
    is_decay_rate,
    largest_of,
    restored_decay_rates,
    split_heads,
    stored_order,
    value_heads,
    xielu_parameters,
)
from service.engine.models.checkpoint.gguf.stacked import stacked_experts
from service.engine.models.checkpoint.gguf.ternary import added_bytes, repacked
from service.generation.errors import ModelLoadError

REFERENCE: Final = "gguf.json"  # in a model's folder: the files that hold its weights
_NUMBERS: Final = {"float32": "<f4", "float16": "<f2", "bfloat16": "<u2"}
_COMPUTED: Final = frozenset({"float32", "bfloat16"})  # the types whose files are computed like other checkpoints
_NORM: Final = "norm.weight"  # the end of a norm's name
_OUTPUT: Final = ".linear_attn.out_proj.weight"  # the end of the name of the matrix whose columns are value heads
_GROUPED: Final = ".query_key_value."  # in the names of tensors with the rows of queries, keys and values
_PLAIN_NORMS: Final = ("linear_attn.norm.weight",)  # norms without an addend in any file


class GgufCheckpoint(Checkpoint):
    """Tensors by transformers' names, dequantized to float32, or as the blocks of their rows."""

    def __init__(self, folder: Path, headers: Sequence[GgufHeader]) -> None:
        """`folder` holds the settings and the tokenizer. Raise ModelLoadError for an unknown tensor."""
        super().__init__(folder, files=[])
        self._files = [header.file for header in headers]
        metadata = headers[0].metadata
        kind = str(metadata.get("general.architecture"))
        self._name = architecture_of(metadata, {name for header in headers for name in header.tensors})
        if self._name not in ARCHITECTURES:
            raise ModelLoadError(f"{headers[0].file}: general.architecture is {kind}, which is not supported")
        self._architecture = ARCHITECTURES[self._name]
        heads = metadata.get(f"{kind}.attention.head_count", 1)
        self._heads = heads, largest_of(metadata.get(f"{kind}.attention.head_count_kv", heads))
        self._tensors: dict[str, GgufTensor] = {}
        for tensor in (each for header in headers for each in header.tensors.values()):
            if tensor.name not in NOT_WEIGHTS:
                self._add(tensor, kind)
        self._value_heads = value_heads(kind, metadata)
        self._assembled = {name: each for name, each in self._assemble_all() if name not in self._tensors}
        try:
            self._xielu = xielu_parameters(kind, metadata) if self._architecture.has_xielu else {}
        except ModelLoadError as error:
            raise ModelLoadError(f"{headers[0].file}: {error}") from error

    def _add(self, tensor: GgufTensor, kind: str) -> None:
        """Add a file's tensor by its names in checkpoints. Raise ModelLoadError for an unknown tensor."""
        if ALL_HEADS in tensor.name and not self._architecture.module("attn_qkv", is_in_layer=True):
            for each in self._split_heads(tensor):
                self._add(each, kind)
            return
        held = held_names(tensor.name)
        for part, own in enumerate(held):
            if (name := checkpoint_name(own, self._architecture)) is None:
                raise ModelLoadError(f"{tensor.file}: {kind} has no tensor {tensor.name}")
            if name in self._tensors or name.format(0) in self._tensors:
                raise ModelLoadError(f"{tensor.file}: the tensor {own} occurs twice")
            self._tensors |= as_stored(name, tensor, part, len(held))

    def _split_heads(self, tensor: GgufTensor) -> list[GgufTensor]:
        try:
            return list(split_heads(tensor, *self._heads))
        except ValueError as error:
            raise ModelLoadError(f"{tensor.file}: {tensor.name} can't be read: {error}") from error

    def __contains__(self, name: str) -> bool:
        return name in self._tensors or name in self._assembled or name in self._xielu

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor, which must exist."""
        if name in self._xielu:
            return self._xielu[name].shape
        return self._assembled[name].shape if name in self._assembled else self._tensors[name].shape

    def describe(self) -> list[tuple[str, tuple[int, ...], str]]:
        """Return the name, shape and type of each tensor, sorted by name."""
        return [(name, tensor.shape, tensor.type.name) for name, tensor in sorted(self._tensors.items())]

    def checkpoint_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the tensors that a checkpoint of the model has, some of which a file has in parts."""
        parts = {part for assembled in self._assembled.values() for part in assembled.parts}
        names = [name for name in self._tensors if name not in parts]
        return {name: self.shape(name) for name in sorted([*names, *self._assembled, *self._xielu])}

    @property
    def memory_bytes(self) -> int:
        """The memory that the weights take in blocks, of which ternary ones grow."""
        return self.num_bytes + sum(added_bytes(each.type, each.num_bytes) for each in self._tensors.values())

    @property
    def dtype(self) -> str:
        """The type in which backends compute that don't take blocks."""
        kinds = {tensor.type.kind for tensor in self._tensors.values() if len(tensor.shape) > 1}
        return "float32" if kinds == {"float32"} else "bfloat16"

    @property
    def block_type(self) -> str | None:
        """The type of most weights; None if all are float32 or bfloat16."""
        sizes = Counter[str]()
        for tensor in self._tensors.values():
            sizes[tensor.type.kind] += math.prod(tensor.shape)
        return sizes.most_common(1)[0][0] if sizes.keys() - _COMPUTED else None

    @property
    def input_orders(self) -> Mapping[str, npt.NDArray[np.int32]]:
        """The inputs of the columns of `take_blocks`, by the names of matrices whose columns are in another order."""
        orders = ((name, self._stored_order(name)) for name in self._tensors if name.endswith(_OUTPUT))
        return {name: np.argsort(order).astype(np.int32) for name, order in orders if order is not None}

    def stores_rows(self, name: str) -> bool:
        """Return whether a matrix is stored as the rows of the checkpoint's tensor, in any order, not in parts."""
        return name in self._tensors

    def kind(self, name: str) -> str:
        """Return the native step's name of a tensor's type. Raise ModelLoadError for a missing tensor."""
        return self._found(name).type.kind

    def take_blocks(self, name: str, shape: Sequence[int], part: TensorSlice | None = None) -> npt.NDArray[Any]:
        """Read a matrix as the blocks of its rows, uint8 [rows, bytes], and a vector as its numbers."""
        tensor = self._checked(name, shape)
        if len(tensor.shape) == 1:
            return self.take(name, shape, part)
        order = None if name.endswith(_OUTPUT) else self._stored_order(name)
        if part is not None and (part.axis != 0 or order is not None):
            raise ModelLoadError(f"{tensor.file}: {tensor.name} can't be read in parts")
        first, end = (part.start, part.end) if part is not None else (0, tensor.shape[0])
        rows_each = math.prod(tensor.shape[1:-1])
        blocks = _read(tensor, first * rows_each, end * rows_each)
        self._taken.add(name)
        if self.on_read is not None:
            self.on_read(blocks.nbytes)
        rows = repacked(tensor.type, blocks).reshape(end - first, *tensor.shape[1:-1], -1)
        return self._in_halves(name, rows if order is None else rows[order], tensor)

    def take(self, name: str, shape: Sequence[int], part: TensorSlice | None = None) -> npt.NDArray[Any]:
        """Read one tensor, or a slice of it, as float32; bfloat16 is returned as its bits, uint16."""
        if name in self._xielu:
            return self._xielu[name].reshape(tuple(shape))
        if (assembled := self._assembled.get(name)) is not None:
            return self._assemble(name, assembled, shape, part)
        tensor = self._checked(name, shape)
        rows = _read(tensor, 0, math.prod(tensor.shape[:-1]))
        self._taken.add(name)
        if self.on_read is not None:
            self.on_read(rows.nbytes)
        is_norm = name.endswith(_NORM) and not name.endswith(_PLAIN_NORMS)
        addend = self._architecture.norm_addend if is_norm else 0.0
        has_bits = tensor.type.kind == "bfloat16" and not addend and not is_decay_rate(name)
        stored = rows.view("<u2").reshape(tensor.shape) if has_bits else _dequantized(tensor, rows)
        numbers = self._in_halves(name, stored, tensor)
        if addend:
            numbers = numbers - np.float32(addend)
        if is_decay_rate(name):
            numbers = restored_decay_rates(numbers)
        if (order := self._stored_order(name)) is not None:
            numbers = np.ascontiguousarray(numbers.take(order, axis=1 if name.endswith(_OUTPUT) else 0))
        if part is None:
            return numbers
        return np.ascontiguousarray(numbers[(slice(None),) * part.axis + (slice(part.start, part.end),)])

    def _assemble_all(self) -> Iterator[tuple[str, Assembled]]:
        yield from assembled_from(self._tensors, self._value_heads)
        if self._architecture.stacked is not None:
            yield from stacked_experts(self._tensors, self._architecture.stacked)

    def _assemble(
        self, name: str, assembled: Assembled, shape: Sequence[int], part: TensorSlice | None
    ) -> npt.NDArray[Any]:
        if assembled.shape != tuple(shape):
            raise ModelLoadError(
                f"{self._files[0]}: the parts of {name} have the shape {list(assembled.shape)}, the metadata require "
                f"{list(shape)}"
            )
        taken = (self.take(each, own) for each, own in assembled.parts.items())
        whole = assembled.combine(bits_as_floats(each) if each.dtype == np.uint16 else each for each in taken)
        if part is None:
            return whole
        return np.ascontiguousarray(whole[(slice(None),) * part.axis + (slice(part.start, part.end),)])

    def require_all_taken(self, known: Iterable[str] = ()) -> None:
        """Raise ModelLoadError if a tensor was not read, unless its name ends with one of `known`."""
        known = tuple(known)
        left = sorted(name for name in self._tensors if name not in self._taken and not name.endswith(known))
        if left:
            tensor = self._tensors[left[0]]
            raise ModelLoadError(f"{tensor.file}: unexpected tensor {tensor.name}")

    def digest(self) -> str:
        """Return a hash of names, shapes, types and samples of each file."""
        return hashlib.sha256(f"{super().digest()} {self._name}".encode()).hexdigest()

    def _in_halves(self, name: str, rows: npt.NDArray[Any], tensor: GgufTensor) -> npt.NDArray[Any]:
        try:
            return in_halves(self._architecture, name, rows, *self._heads)
        except ValueError as error:
            raise ModelLoadError(f"{tensor.file}: {tensor.name} can't be read: {error}") from error

    def _stored_order(self, name: str) -> npt.NDArray[np.intp] | None:
        """Return where the file has the rows of a tensor, or its columns if it is an output; None: in their places."""
        if self._architecture.groups_heads and _GROUPED in name:
            return self._grouped_order(self._tensors[name])
        heads = self._value_heads
        if not self._architecture.tiles_values or heads is None or heads.group == 1:
            return None
        return stored_order(name, heads)

    def _grouped_order(self, tensor: GgufTensor) -> npt.NDArray[np.intp]:
        try:
            return grouped_order(tensor.shape[0], *self._heads)
        except ValueError as error:
            raise ModelLoadError(f"{tensor.file}: {tensor.name} can't be read: {error}") from error

    def _found(self, name: str) -> GgufTensor:
        if name not in self._tensors:
            raise ModelLoadError(f"{self._files[0]}: the tensor {name} is missing")
        return self._tensors[name]

    def _checked(self, name: str, shape: Sequence[int]) -> GgufTensor:
        tensor = self._found(name)
        if tensor.shape != tuple(shape):
            raise ModelLoadError(
                f"{tensor.file}: {tensor.name} has the shape {list(tensor.shape)}, the metadata requires {list(shape)}"
            )
        return tensor


def read_numbers(tensor: GgufTensor) -> npt.NDArray[np.float32]:
    """Return a tensor as float32."""
    return _dequantized(tensor, _read(tensor, 0, math.prod(tensor.shape[:-1])))


def _read(tensor: GgufTensor, first: int, end: int) -> npt.NDArray[np.uint8]:
    """Read the rows [first, end) of a tensor, uint8 [rows, bytes]."""
    rows = np.empty((end - first, tensor.row_bytes), np.uint8)
    view, offset = rows.reshape(-1).data, tensor.offset + first * tensor.row_bytes
    try:
        with tensor.file.open("rb", buffering=0) as file:
            while view:
                num_read = os.preadv(file.fileno(), [view], offset)
                if num_read == 0:
                    raise ModelLoadError(f"{tensor.file}: {tensor.name} can't be read: the file was truncated")
                view, offset = view[num_read:], offset + num_read
    except OSError as error:
        raise ModelLoadError(f"{tensor.file}: {tensor.name} can't be read: {error}") from error
    return rows


def _dequantized(tensor: GgufTensor, rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """Return rows of blocks as float32, in the tensor's shape."""
    if (dtype := _NUMBERS.get(tensor.type.kind)) is not None:
        numbers = rows.view(dtype).reshape(tensor.shape)
        return bits_as_floats(numbers) if tensor.type.kind == "bfloat16" else numbers.astype(np.float32)
    import gguf  # noqa: PLC0415  installed with the extra `gguf`

    with np.errstate(all="ignore"):  # scales may be any numbers
        found: npt.NDArray[np.float32] = gguf.dequantize(rows, gguf.GGMLQuantizationType(tensor.type.number))
    return found.reshape(tensor.shape)


def open_gguf(folder: Path) -> GgufCheckpoint | None:
    """Return the tensors of the GGUF files that a folder refers to, or None if it refers to none."""
    reference = folder / REFERENCE
    if not reference.is_file():
        return None
    try:
        files = [Path(file) for file in json.loads(reference.read_text(encoding="utf-8"))["files"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelLoadError(f"{reference} can't be used: {error}") from error
    return GgufCheckpoint(folder, [read_header(file, keeps_texts=False) for file in files])
