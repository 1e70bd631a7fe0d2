"""The format of a snapshot: a table of the entries, and the bytes of each.

| bytes | content |
|---|---|
| header | magic, seal, number of entries, offset of the first entry's bytes, sizes of a block and of a state |
| table | for each entry its kind, the length of its key, its key, and the checksum of key and bytes |
| checksum | of header and table |
| bytes | of all entries, in the order of the table |

The most useful entries are first, so a file that was cut off loses the least useful ones. Nothing is synchronized to
the disk: what a power failure leaves out has a wrong checksum.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections import abc
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from service.engine.core.blocks.cache_entry import BLOCK, STATE, CacheEntry

Rows: TypeAlias = npt.NDArray[np.uint8]  # [blocks or slots, bytes of each], in the backend's memory
SEAL_BYTES: Final = 32

_MAGIC: Final = b"sluice\0\1"
_HEADER: Final = struct.Struct("<8s32sQQQQ")
_RECORD: Final = struct.Struct("<BB46s16s")
_CHECKSUM_BYTES: Final = 16
_MAX_ENTRIES: Final = 1 << 20


class SnapshotUnusable(Exception):  # noqa: N818  the name says what happened
    """A file is not a snapshot of this engine. The message has the reason."""


def write_snapshot(
    file: BinaryIO,
    seal: bytes,
    entries: abc.Sequence[CacheEntry],
    rows: abc.Sequence[Rows],
    is_late: abc.Callable[[], bool],
) -> int:
    """Write the entries' rows until `is_late` returns True, and then the table. Return the number of entries.

    `rows` has the rows of blocks and, if there are any, those of states.
    """
    offset = _table_end(len(entries))
    file.seek(offset)
    records = []
    for kind, key, row in entries:
        if is_late():
            break
        content = rows[kind][row].data
        file.write(content)
        records.append(_RECORD.pack(kind, len(key), key, _checksum(key, content)))
    table = _HEADER.pack(_MAGIC, seal, len(records), offset, *_sizes(rows)) + b"".join(records)
    file.seek(0)
    file.write(table + _checksum(table))
    return len(records)


def read_snapshot(path: Path, seal: bytes, rows: abc.Sequence[Rows]) -> list[CacheEntry]:
    """Read a snapshot into the rows, and return the entries that are as they were written, in the file's order.

    Blocks get the last rows, in ascending order, and states the first. Entries that the rows can't hold are left out.
    Raise SnapshotUnusable if the file has another seal, or is no snapshot; OSError if it can't be read.
    """
    with path.open("rb", buffering=0) as file:
        records, start = _read_table(file, seal, rows)
        sizes = _sizes(rows)
        ends = accumulate((sizes[kind] for kind, *_ in records), initial=start)
        num_blocks = min(sum(kind == BLOCK for kind, *_ in records), len(rows[BLOCK]))
        free = {BLOCK: iter(range(len(rows[BLOCK]) - num_blocks, len(rows[BLOCK])))}
        if len(rows) > STATE:
            free[STATE] = iter(range(len(rows[STATE])))
        entries = []
        for (kind, length, padded, checksum), offset in zip(records, ends, strict=False):
            row = next(free[kind], None)
            if row is None:
                continue
            key, content = padded[:length], rows[kind][row].data
            if os.preadv(file.fileno(), [content], offset) == len(content) and _checksum(key, content) == checksum:
                entries.append(CacheEntry(kind, key, row))
        return entries


def num_bytes(entries: abc.Sequence[CacheEntry], rows: abc.Sequence[Rows]) -> int:
    """Return the size of a snapshot of the entries."""
    sizes = _sizes(rows)
    return _table_end(len(entries)) + sum(sizes[entry.kind] for entry in entries)


def num_fitting(entries: abc.Sequence[CacheEntry], rows: abc.Sequence[Rows], max_bytes: int) -> int:
    """Return the number of entries, from the first on, whose snapshot has at most `max_bytes`."""
    sizes = _sizes(rows)
    ends = accumulate(sizes[entry.kind] + _RECORD.size for entry in entries[:_MAX_ENTRIES])
    return sum(end + _table_end(0) <= max_bytes for end in ends)


def _read_table(
    file: BinaryIO, seal: bytes, rows: abc.Sequence[Rows]
) -> tuple[list[tuple[int, int, bytes, bytes]], int]:
    """Return the records of a snapshot's table, and the offset of the first entry's bytes. Raise SnapshotUnusable."""
    head = os.pread(file.fileno(), _HEADER.size, 0)
    if len(head) < _HEADER.size or not head.startswith(_MAGIC):
        raise SnapshotUnusable("it is not a snapshot of this version")
    _, found, count, start, *sizes = _HEADER.unpack(head)
    if found != seal or tuple(sizes) != _sizes(rows):
        raise SnapshotUnusable("it is of another model, or of other settings")
    size = min(count, _MAX_ENTRIES) * _RECORD.size
    table = os.pread(file.fileno(), size + _CHECKSUM_BYTES, _HEADER.size)
    if len(table) < size + _CHECKSUM_BYTES or _checksum(head, table[:size]) != table[size:]:
        raise SnapshotUnusable("its table is damaged")
    return list(_RECORD.iter_unpack(table[:size])), start


def _sizes(rows: abc.Sequence[Rows]) -> tuple[int, int]:
    """Return the bytes of a block and of a state, 0 if there are no states."""
    return rows[BLOCK].shape[1], rows[STATE].shape[1] if len(rows) > STATE else 0


def _table_end(num_entries: int) -> int:
    return _HEADER.size + num_entries * _RECORD.size + _CHECKSUM_BYTES


def _checksum(*parts: bytes | memoryview) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.digest()[:_CHECKSUM_BYTES]
