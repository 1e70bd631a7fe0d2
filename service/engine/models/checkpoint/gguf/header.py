"""The header of a GGUF file: metadata, and the positions of tensors.

Every number of the file is checked before memory is taken for what it describes. Errors are ModelLoadErrors with the
file's and the field's name. The layout is that of the format's versions 2 and 3.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn

import numpy as np

from service.engine.models.checkpoint.gguf.types import BLOCKS, UNSUPPORTED, BlockType
from service.generation.errors import ModelLoadError

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_MOST_HEADER_BYTES: Final = 1 << 28
_MOST_ENTRIES: Final = 1 << 17  # of the metadata, and tensors
_MOST_NAME_BYTES: Final = 1 << 10
_MOST_DIMENSIONS: Final = 4
_DEFAULT_ALIGNMENT: Final = 32
_BLOCK_BYTES: Final = 1 << 18  # of a list of texts that are read at once
_LENGTH: Final = struct.Struct("<Q")  # of a text
_STRING, _ARRAY, _BOOL = 8, 9, 7
# The types of metadata values by their numbers, as struct and numpy name them.
_NUMBERS: Final = {
    0: "u1", 1: "i1", 2: "u2", 3: "i2", 4: "u4", 5: "i4", 6: "f4", _BOOL: "u1", 10: "u8", 11: "i8", 12: "f8",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """A tensor's position. The last dimension is that of a row, as in numpy."""

    name: str
    file: Path
    type: BlockType
    shape: tuple[int, ...]
    offset: int  # bytes from the start of the file

    @property
    def row_bytes(self) -> int:
        """The bytes of a row."""
        return self.shape[-1] // self.type.columns * self.type.num_bytes

    @property
    def num_bytes(self) -> int:
        """The bytes of the tensor."""
        return math.prod(self.shape[:-1]) * self.row_bytes


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """The header of one file."""

    file: Path
    metadata: dict[str, Any]  # numbers, truth values, texts, lists of texts, arrays of numbers
    tensors: dict[str, GgufTensor]


def read_header(file: Path, *, keeps_texts: bool = True) -> GgufHeader:
    """Read the header of a GGUF file. Raise ModelLoadError if it is malformed.

    Without `keeps_texts`, lists of texts are empty: a vocabulary and its merges take longer than all else.
    """
    try:
        with file.open("rb") as opened:
            return _Reader(file, opened, file.stat().st_size, keeps_texts=keeps_texts).header()
    except OSError as error:
        raise ModelLoadError(f"{file} can't be read as GGUF: {error}") from error


class _Reader:
    """Reads the fields of a file's header in their order."""

    def __init__(self, file: Path, opened: BinaryIO, size: int, *, keeps_texts: bool) -> None:
        self._file, self._opened, self._size = file, opened, size
        self._keeps_texts = keeps_texts
        self._position = 0

    def header(self) -> GgufHeader:
        if self._bytes(4, "the magic number") != _MAGIC:
            self._fail("it doesn't begin with GGUF")
        version = self._number("u4", "version")
        if version not in _VERSIONS:
            order = "; its byte order may be another" if version & 0xFFFF == 0 else ""
            self._fail(f"version must be 2 or 3, not {version}{order}")
        num_tensors = self._count("tensor_count", _MOST_ENTRIES)
        num_entries = self._count("metadata_kv_count", _MOST_ENTRIES)
        metadata: dict[str, Any] = {}
        for index in range(num_entries):
            key = self._text(f"key {index} of the metadata", _MOST_NAME_BYTES)
            if key in metadata:
                self._fail(f"{key} occurs twice")
            metadata[key] = self._value(self._number("u4", f"the type of {key}"), key)
        found = [self._tensor(index) for index in range(num_tensors)]
        alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or alignment < 8 or alignment > 1 << 20 or alignment & (alignment - 1):
            self._fail(f"general.alignment must be a power of two from 8 to 1048576, not {alignment}")
        start = -(-self._position // alignment) * alignment
        tensors: dict[str, GgufTensor] = {}
        for tensor in found:
            if tensor.name in tensors:
                self._fail(f"the tensor {tensor.name} occurs twice")
            if tensor.offset % alignment:
                self._fail(f"the offset of {tensor.name} must be a multiple of {alignment}, not {tensor.offset}")
            if start + tensor.offset + tensor.num_bytes > self._size:
                self._fail(f"the tensor {tensor.name} ends behind the end of the file")
            tensors[tensor.name] = GgufTensor(tensor.name, self._file, tensor.type, tensor.shape, start + tensor.offset)
        self._check_overlaps(tensors.values())
        return GgufHeader(self._file, metadata, tensors)

    def _check_overlaps(self, tensors: Iterable[GgufTensor]) -> None:
        """Reject tensors that share bytes, by which a small file could describe more numbers than it has."""
        for first, second in pairwise(sorted(tensors, key=lambda tensor: tensor.offset)):
            if first.offset + first.num_bytes > second.offset:
                self._fail(f"the tensors {first.name} and {second.name} overlap")

    def _tensor(self, index: int) -> GgufTensor:
        name = self._text(f"the name of tensor {index}", _MOST_NAME_BYTES)
        num_dimensions = self._number("u4", f"the dimensions of {name}")
        if not 1 <= num_dimensions <= _MOST_DIMENSIONS:
            self._fail(f"{name} must have 1 to {_MOST_DIMENSIONS} dimensions, not {num_dimensions}")
        sizes = [self._number("u8", f"the dimensions of {name}") for _ in range(num_dimensions)]
        number = self._number("u4", f"the type of {name}")
        offset = self._number("u8", f"the offset of {name}")
        if number not in BLOCKS:
            self._fail(f"{name} has the type {UNSUPPORTED.get(number, number)}, which is not supported")
        block = BLOCKS[number]
        if min(sizes) < 1 or math.prod(sizes) > 8 * self._size:
            self._fail(f"{name} has the dimensions {sizes}, which the file can't hold")
        if sizes[0] % block.columns:
            self._fail(f"the rows of {name} must be a multiple of {block.columns} for {block.name}, not {sizes[0]}")
        return GgufTensor(name, self._file, block, tuple(reversed(sizes)), offset)

    def _value(self, number: int, key: str, *, is_element: bool = False) -> Any:
        if number == _STRING:
            return self._text(key, _MOST_HEADER_BYTES)
        if number == _ARRAY and not is_element:
            return self._array(key)
        if number not in _NUMBERS:
            self._fail(f"{key} has the unknown type {number}")
        value = self._number(_NUMBERS[number], key)
        return bool(value) if number == _BOOL else value

    def _array(self, key: str) -> Any:
        number = self._number("u4", f"the type of {key}")
        if number == _STRING:
            count = self._count(f"the length of {key}", (self._size - self._position) // 8)
            if self._keeps_texts:
                return self._texts(key, count)
            self._skip_texts(key, count)
            return []
        if number not in _NUMBERS:
            self._fail(f"{key} is a list of the unknown type {number}")
        dtype = np.dtype("<" + _NUMBERS[number])
        count = self._count(f"the length of {key}", (self._size - self._position) // dtype.itemsize)
        return np.frombuffer(self._bytes(count * dtype.itemsize, key), dtype)

    def _texts(self, key: str, count: int) -> list[str]:
        """Read a list of texts, as many as possible of each block; `_text` reads the others and those with errors."""
        texts: list[str] = []
        while len(texts) < count:
            block = self._opened.read(min(_BLOCK_BYTES, _MOST_HEADER_BYTES - self._position))
            in_block, end = _whole_texts(block, count - len(texts))
            self._opened.seek(end - len(block), os.SEEK_CUR)
            self._position += end
            texts += in_block or [self._text(f"{key}[{len(texts)}]", _MOST_HEADER_BYTES)]
        return texts

    def _skip_texts(self, key: str, count: int) -> None:
        """Skip a list of texts, which need not be UTF-8."""
        num_skipped = 0
        while num_skipped < count:
            block = self._opened.read(min(_BLOCK_BYTES, _MOST_HEADER_BYTES - self._position))
            in_block, end = _num_whole(block, count - num_skipped)
            self._opened.seek(end - len(block), os.SEEK_CUR)
            self._position += end
            num_skipped += in_block
            if not in_block:
                field = f"{key}[{num_skipped}]"
                self._bytes(self._count(f"the length of {field}", _MOST_HEADER_BYTES), field)
                num_skipped += 1

    def _text(self, field: str, most: int) -> str:
        length = self._count(f"the length of {field}", most)
        try:
            return self._bytes(length, field).decode("utf-8")
        except UnicodeDecodeError:
            self._fail(f"{field} is not UTF-8")

    def _count(self, field: str, most: int) -> int:
        count: int = self._number("u8", field)
        if count > most:
            self._fail(f"{field} must be at most {most}, not {count}")
        return count

    def _number(self, kind: str, field: str) -> Any:
        size, code = int(kind[1]), {"u": "BHIQ", "i": "bhiq", "f": " .fd"}[kind[0]]
        return struct.unpack("<" + code[size.bit_length() - 1], self._bytes(size, field))[0]

    def _bytes(self, count: int, field: str) -> bytes:
        if count > self._size - self._position:
            self._fail(f"the file ends before {field}")
        if self._position + count > _MOST_HEADER_BYTES:
            self._fail(f"the metadata takes more than {_MOST_HEADER_BYTES >> 20} MiB, up to {field}")
        read = self._opened.read(count)
        if len(read) < count:
            self._fail(f"the file ends before {field}")
        self._position += count
        return read

    def _fail(self, problem: str) -> NoReturn:
        raise ModelLoadError(f"{self._file} can't be read as GGUF: {problem}")


def _whole_texts(block: bytes, most: int) -> tuple[list[str], int]:
    """Return at most `most` texts from the start of a block, up to one that isn't whole or not UTF-8, and their end."""
    texts: list[str] = []
    position, size = 0, len(block) - _LENGTH.size
    while len(texts) < most and position <= size:
        start = position + _LENGTH.size
        end = start + _LENGTH.unpack_from(block, position)[0]
        if end > len(block):
            break
        try:
            texts.append(block[start:end].decode("utf-8"))
        except UnicodeDecodeError:
            break
        position = end
    return texts, position


def _num_whole(block: bytes, most: int) -> tuple[int, int]:
    """Return the number of texts at the start of a block, at most `most`, up to one that isn't whole, and their end."""
    length_of, size = _LENGTH.unpack_from, len(block)
    position = 0
    for index in range(most):
        if position + _LENGTH.size > size:
            return index, position
        end = position + _LENGTH.size + length_of(block, position)[0]
        if end > size:
            return index, position
        position = end
    return most, position
