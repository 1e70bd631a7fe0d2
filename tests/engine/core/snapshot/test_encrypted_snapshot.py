"""Snapshots with a key: nothing of a prompt is in the file, and no other key and no moved part is accepted."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from service.engine.core.blocks.cache_entry import BLOCK, CacheEntry
from service.engine.core.snapshot.snapshot_file import SnapshotUnusable
from service.engine.core.snapshot.snapshot_folder import SnapshotFolder
from tests.engine.core.snapshot.test_snapshot_file import ENTRIES, KEYS, NUM_BLOCKS, SEAL, rows_of

KEY = KEYS[1]
OTHER_KEY = bytes(32)


def test_nothing_readable_is_in_the_file(tmp_path: Path) -> None:
    """Neither the bytes nor the keys of entries are. Two files of the same content have nothing in common."""
    folder = SnapshotFolder(tmp_path, 1 << 20, key=KEY)
    rows = rows_of(0)
    contents = []
    for _ in range(2):
        folder.write(SEAL, ENTRIES, rows)
        contents.append(folder.path(SEAL).read_bytes())
    for kind, key, row in ENTRIES:
        stored = rows[kind][row].tobytes()
        for content in contents:
            assert key not in content
            assert not any(stored[at : at + 4] in content for at in range(0, len(stored), 4))
    begin = 8 + 32  # magic and seal
    chunks = [{content[at : at + 8] for at in range(begin, len(content) - 8)} - {bytes(8)} for content in contents]
    assert len(chunks[0] & chunks[1]) <= 64  # numbers of the header


def test_equal_blocks_differ_in_the_file(tmp_path: Path) -> None:
    """The file does not show that two blocks have the same bytes."""
    folder = SnapshotFolder(tmp_path, 1 << 20, key=KEY)
    rows = [np.full((NUM_BLOCKS, 96), 7, np.uint8)]
    entries = [CacheEntry(BLOCK, bytes([index]) * 32, index) for index in range(4)]
    folder.write(SEAL, entries, rows)
    content = folder.path(SEAL).read_bytes()
    stored = [content[len(content) - 96 * (index + 1) :][:96] for index in range(4)]
    assert all(one != other for one, other in pairwise(sorted(stored)))


@pytest.mark.parametrize(
    ("written", "read", "reason"),
    [
        (KEY, OTHER_KEY, "encrypted with another key"),
        (KEY, None, "it is encrypted"),
        (None, KEY, "it is not encrypted"),
    ],
)
def test_another_key_reads_nothing(written: bytes | None, read: bytes | None, reason: str, tmp_path: Path) -> None:
    """A file is read with the key with which it was written, and with no other, or none."""
    SnapshotFolder(tmp_path, 1 << 20, key=written).write(SEAL, ENTRIES, rows_of(0))
    with pytest.raises(SnapshotUnusable, match=reason):
        SnapshotFolder(tmp_path, 1 << 20, key=read).read(SEAL, rows_of(1))


def test_exchanged_blocks_are_not_used(tmp_path: Path) -> None:
    """An encrypted block is bound to its place in its file."""
    folder = SnapshotFolder(tmp_path, 1 << 20, key=KEY)
    rows = [rows_of(0)[BLOCK]]
    entries = [CacheEntry(BLOCK, bytes([index]) * 32, index) for index in range(4)]
    folder.write(SEAL, entries, rows)
    content = folder.path(SEAL).read_bytes()
    folder.path(SEAL).write_bytes(content[:-192] + content[-96:] + content[-192:-96])
    assert [each.key for each in folder.read(SEAL, [rows_of(1)[BLOCK]])] == [each.key for each in entries[:2]]


def test_plain_files_are_removed_for_a_key(tmp_path: Path) -> None:
    """Files of other models, of earlier releases and unfinished ones are removed unless they are encrypted."""
    folder = SnapshotFolder(tmp_path, 1 << 20, key=KEY)
    assert folder.remove_plain() == 0
    folder.write(SEAL, ENTRIES, rows_of(0))
    encrypted = folder.path(SEAL)
    unfinished = encrypted.with_suffix(".cache.1")
    unfinished.write_bytes(encrypted.read_bytes()[:200])
    plain = SnapshotFolder(tmp_path, 1 << 20)
    plain.write(bytes(32), ENTRIES, rows_of(0))
    plain.path(b"e" * 32).write_bytes(b"sluice\0\1" + bytes(200))  # of an earlier release
    plain.path(b"u" * 32).with_suffix(".cache.2").write_bytes(plain.path(bytes(32)).read_bytes()[:200])
    (tmp_path / "another.cache").touch()
    assert plain.remove_plain() == 0
    assert folder.remove_plain() == 3
    assert {path.name for path in tmp_path.iterdir()} == {encrypted.name, unfinished.name, "another.cache"}
    assert len(folder.read(SEAL, rows_of(1))) == len(ENTRIES)
