"""The format of a snapshot: a table of the entries, and the bytes of each.

| bytes | content |
|---|---|
| header | magic, seal, salt, number of entries, offset of the first entry's bytes, sizes of a block and of a state |
| table | for each entry its kind, the length of its key, its key, and the check of key and bytes |
| check | of header and table |
| bytes | of all entries, in the order of the table |

A check is a checksum; in an encrypted file, which has a salt, it is the tag that authenticates the encrypted table or
bytes. The most useful entries are first, so a file that was cut off loses the least useful ones. Nothing is
synchronized to the disk: what a power failure leaves out has a wrong check.
"""

from __future__ import annotations

import os
import struct
from collections import abc
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from service.engine.core.blocks.cache_entry import BLOCK, STATE, CacheEntry
from service.engine.core.snapshot.protection import CHECK_BYTES, NO_SALT, Checksums, Encryption, Protection

Rows: TypeAlias = npt.NDArray[np.uint8]  # [blocks or slots, bytes of each], in the backend's memory
SEAL_BYTES: Final = 32

_MAGIC: Final = b"sluice\0\2"
_HEADER: Final = struct.Struct("<8s32s32sQQQQ")
_RECORD: Final = struct.Struct("<BB46s16s")
_MAX_ENTRIES: Final = 1 << 20
_TABLE: Final = 0  # the number of this part; entries count from 1


class SnapshotUnusable(Exception):  # noqa: N818  the name says what happened
    """A file is not a snapshot of this engine. The message has the reason."""


def write_snapshot(
    file: BinaryIO,
    seal: bytes,
    entries: abc.Sequence[CacheEntry],
    rows: abc.Sequence[Rows],
    is_late: abc.Callable[[], bool],
    *,
    key: bytes | None = None,
) -> int:
    """Write the entries' rows until `is_late` returns True, and then the table. Return the number of entries.

    `rows` has the rows of blocks and, if there are any, those of states. With a `key` the file is encrypted.
    """
    protection: Protection = Checksums() if key is None else Encryption.of_new_file(key)
    offset = _table_end(len(entries))
    identity = _MAGIC, seal, protection.salt
    file.write(_HEADER.pack(*identity, 0, offset, *_sizes(rows)))  # an unfinished file shows if it is encrypted, too
    file.seek(offset)
    records = []
    for number, (kind, name, row) in enumerate(entries, _TABLE + 1):
        if is_late():
            break
        content, check = protection.close(number, name, rows[kind][row].data)
        file.write(content)
        records.append(_RECORD.pack(kind, len(name), name, check))
    head = _HEADER.pack(*identity, len(records), offset, *_sizes(rows))
    table, check = protection.close(_TABLE, head, b"".join(records))
    file.seek(0)
    file.writelines((head, table, check))
    return len(records)


def read_snapshot(path: Path, seal: bytes, rows: abc.Sequence[Rows], key: bytes | None = None) -> list[CacheEntry]:
    """Read a snapshot into the rows, and return the entries that are as they were written, in the file's order.

    Blocks get the last rows, in ascending order, and states the first. Entries that the rows can't hold are left out.
    With a `key` only an encrypted file is read. Raise SnapshotUnusable if the file has another seal, or is no snapshot;
    OSError if it can't be read.
    """
    with path.open("rb", buffering=0) as file:
        head = os.pread(file.fileno(), _HEADER.size, 0)
        protection = _protection_of(head, key)
        records, start = _read_table(file.fileno(), head, protection, seal, rows)
        sizes = _sizes(rows)
        ends = accumulate((sizes[kind] for kind, *_ in records), initial=start)
        num_blocks = min(sum(kind == BLOCK for kind, *_ in records), len(rows[BLOCK]))
        free = {BLOCK: iter(range(len(rows[BLOCK]) - num_blocks, len(rows[BLOCK])))}
        if len(rows) > STATE:
            free[STATE] = iter(range(len(rows[STATE])))
        entries = []
        for number, ((kind, length, padded, check), offset) in enumerate(zip(records, ends, strict=False), _TABLE + 1):
            row = next(free[kind], None)
            if row is None:
                continue
            name = padded[:length]
            if protection.read(file.fileno(), offset, rows[kind][row].data, number=number, context=name, check=check):
                entries.append(CacheEntry(kind, name, row))
        return entries


def is_readable(path: Path) -> bool:
    """Return whether a snapshot, or an unfinished one, has content that is not encrypted. Raise OSError."""
    with path.open("rb") as file:
        head = file.read(_HEADER.size)
    return len(head) == _HEADER.size and _salt_of(head) in {None, NO_SALT}


def num_bytes(entries: abc.Sequence[CacheEntry], rows: abc.Sequence[Rows]) -> int:
    """Return the size of a snapshot of the entries."""
    sizes = _sizes(rows)
    return _table_end(len(entries)) + sum(sizes[entry.kind] for entry in entries)


def num_fitting(entries: abc.Sequence[CacheEntry], rows: abc.Sequence[Rows], max_bytes: int) -> int:
    """Return the number of entries, from the first on, whose snapshot has at most `max_bytes`."""
    sizes = _sizes(rows)
    ends = accumulate(sizes[entry.kind] + _RECORD.size for entry in entries[:_MAX_ENTRIES])
    return sum(end + _table_end(0) <= max_bytes for end in ends)


def _salt_of(head: bytes) -> bytes | None:
    """Return the salt in a header, or None if it is not a header of this version."""
    if len(head) < _HEADER.size or not head.startswith(_MAGIC):
        return None
    salt: bytes = _HEADER.unpack(head)[2]
    return salt


def _protection_of(head: bytes, key: bytes | None) -> Protection:
    """Return the protection of a file with a header. Raise SnapshotUnusable."""
    salt = _salt_of(head)
    if salt is None:
        raise SnapshotUnusable("it is not a snapshot of this version")
    if key is None:
        if salt != NO_SALT:
            raise SnapshotUnusable("it is encrypted, and no key is configured")
        return Checksums()
    if salt == NO_SALT:
        raise SnapshotUnusable("it is not encrypted, although a key is configured")
    return Encryption(key, salt)


def _read_table(
    file: int, head: bytes, protection: Protection, seal: bytes, rows: abc.Sequence[Rows]
) -> tuple[list[tuple[int, int, bytes, bytes]], int]:
    """Return the records of a snapshot's table, and the offset of the first entry's bytes. Raise SnapshotUnusable."""
    _, found, _, count, start, *sizes = _HEADER.unpack(head)
    if found != seal or tuple(sizes) != _sizes(rows):
        raise SnapshotUnusable("it is of another model, or of other settings")
    table = bytearray(min(count, _MAX_ENTRIES) * _RECORD.size)
    check = os.pread(file, CHECK_BYTES, _HEADER.size + len(table))
    if len(check) < CHECK_BYTES or not protection.read(
        file, _HEADER.size, memoryview(table), number=_TABLE, context=head, check=check
    ):
        raise SnapshotUnusable(
            "its table is damaged" if protection.salt == NO_SALT else "it is damaged, or encrypted with another key"
        )
    return list(_RECORD.iter_unpack(table)), start


def _sizes(rows: abc.Sequence[Rows]) -> tuple[int, int]:
    """Return the bytes of a block and of a state, 0 if there are no states."""
    return rows[BLOCK].shape[1], rows[STATE].shape[1] if len(rows) > STATE else 0


def _table_end(num_entries: int) -> int:
    return _HEADER.size + num_entries * _RECORD.size + CHECK_BYTES
