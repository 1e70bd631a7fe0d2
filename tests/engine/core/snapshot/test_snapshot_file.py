"""The snapshot's file: whatever happens to it, only entries that are as they were written are read from it."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest

from service.engine.core.blocks.cache_entry import BLOCK, STATE, CacheEntry
from service.engine.core.snapshot.snapshot_file import SnapshotUnusable
from service.engine.core.snapshot.snapshot_folder import SnapshotFolder
from tests.engine.fakes import Clock

SEAL = bytes(range(32))
KEYS = [None, bytes(range(100, 132))]
NUM_BLOCKS, NUM_STATES = 12, 4
ENTRIES = [
    *(CacheEntry(BLOCK, bytes([index] * 32), index) for index in range(3, 9)),
    CacheEntry(STATE, bytes([8] * 32), 2),
    CacheEntry(BLOCK, bytes([9] * 32) + b"\0\1", 9),
]


def rows_of(seed: int) -> list[np.ndarray[tuple[int, int], np.dtype[np.uint8]]]:
    """Return memory of blocks and states with random bytes."""
    draw = np.random.default_rng(seed)
    return [draw.integers(0, 256, (n, size), np.uint8) for n, size in ((NUM_BLOCKS, 96), (NUM_STATES, 40))]


def assert_true(entries: list[CacheEntry], rows: list[np.ndarray[tuple[int, int], np.dtype[np.uint8]]]) -> None:
    """Assert that each entry's row has the bytes that were written under its key."""
    written = rows_of(0)
    source = {(each.kind, each.key): written[each.kind][each.row] for each in ENTRIES}
    for kind, key, row in entries:
        assert np.array_equal(rows[kind][row], source[kind, key])


@pytest.mark.parametrize("key", KEYS, ids=["plain", "encrypted"])
def test_a_snapshot_returns_what_was_written(key: bytes | None, tmp_path: Path) -> None:
    """Entries keep their order; blocks are adjacent at the end of the memory, in which other rows are unchanged."""
    folder = SnapshotFolder(tmp_path, 1 << 20, key=key)
    assert folder.read(SEAL, rows_of(1)) == []
    assert folder.write(SEAL, ENTRIES, rows_of(0)) == len(ENTRIES)
    rows = rows_of(1)
    entries = folder.read(SEAL, rows)
    assert [(each.kind, each.key) for each in entries] == [(each.kind, each.key) for each in ENTRIES]
    assert [each.row for each in entries if each.kind == BLOCK] == list(range(5, 12))
    assert_true(entries, rows)
    assert np.array_equal(rows[BLOCK][:5], rows_of(1)[BLOCK][:5])


def test_a_smaller_memory_takes_the_first_entries(tmp_path: Path) -> None:
    """Entries that the memory can't hold are left out."""
    folder = SnapshotFolder(tmp_path, 1 << 20)
    folder.write(SEAL, ENTRIES, rows_of(0))
    rows = [each[:3] for each in rows_of(1)]
    entries = folder.read(SEAL, rows)
    assert [each.key for each in entries if each.kind == BLOCK] == [each.key for each in ENTRIES[:3]]
    assert_true(entries, rows)


def test_a_late_writer_leaves_the_last_entries_out(tmp_path: Path) -> None:
    """The file is complete, with the entries that were written in time."""

    class Ticking(Clock):
        def __call__(self) -> float:
            self.now += 3
            return self.now

    folder = SnapshotFolder(tmp_path, 1 << 20, Ticking())
    assert folder.write(SEAL, ENTRIES, rows_of(0)) == 3
    rows = rows_of(1)
    entries = folder.read(SEAL, rows)
    assert [each.key for each in entries] == [each.key for each in ENTRIES[:3]]
    assert_true(entries, rows)


@pytest.mark.parametrize("key", KEYS, ids=["plain", "encrypted"])
def test_no_damage_brings_a_wrong_entry(key: bytes | None, tmp_path: Path) -> None:
    """Of 1,000 files with random flipped bits or cut off anywhere, each brings true entries or is unusable."""
    folder = SnapshotFolder(tmp_path, 1 << 20, key=key)
    folder.write(SEAL, ENTRIES, rows_of(0))
    path, draw = folder.path(SEAL), random.Random(0)
    content = path.read_bytes()
    num_read = num_unusable = 0
    for _ in range(1000):
        damaged = bytearray(content)
        for _ in range(draw.choice([0, 1, 1, 2, 8])):
            damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
        if draw.random() < 0.4:
            del damaged[draw.randrange(len(damaged)) :]
        path.write_bytes(damaged)
        rows = rows_of(1)
        try:
            entries = folder.read(SEAL, rows)
        except SnapshotUnusable:
            num_unusable += 1
        else:
            assert_true(entries, rows)
            num_read += len(entries)
    assert num_unusable > 100
    assert num_read > 1000


def test_another_seal_or_size_reads_nothing(tmp_path: Path) -> None:
    """A file under the name of another seal, or with other sizes of blocks, is not used."""
    folder = SnapshotFolder(tmp_path, 1 << 20)
    folder.write(SEAL, ENTRIES, rows_of(0))
    other = bytes(32)
    folder.path(SEAL).rename(folder.path(other))
    with pytest.raises(SnapshotUnusable, match="another model"):
        folder.read(other, rows_of(1))
    folder.path(other).rename(folder.path(SEAL))
    with pytest.raises(SnapshotUnusable, match="another model"):
        folder.read(SEAL, [each[:, 1:] for each in rows_of(1)])


def test_the_oldest_files_make_space(tmp_path: Path) -> None:
    """A new snapshot removes as many of the oldest files as the limit requires, before it is written."""
    folder = SnapshotFolder(tmp_path, 3500)
    paths = [folder.path(bytes([age]) * 32) for age in range(3)]
    foreign = tmp_path / "another.cache"
    for age, path in enumerate([*paths, foreign]):
        path.write_bytes(bytes(1000))
        os.utime(path, (1000 - age, 1000 - age))
    folder.write(SEAL, ENTRIES, rows_of(0))
    assert {*tmp_path.iterdir()} == {*paths[:2], folder.path(SEAL), foreign}


def test_a_failed_write_leaves_no_file(tmp_path: Path) -> None:
    """What was written before the disk was full is removed, and the earlier snapshot stays."""
    folder = SnapshotFolder(tmp_path, 1 << 20)
    folder.write(SEAL, ENTRIES, rows_of(0))

    class FullDisk(Clock):
        def __call__(self) -> float:
            self.now += 1
            if self.now > 103:
                raise OSError(28, "No space left on device")
            return self.now

    with pytest.raises(OSError, match="No space"):
        SnapshotFolder(tmp_path, 1 << 20, FullDisk()).write(SEAL, ENTRIES, rows_of(0))
    assert [path.name for path in tmp_path.iterdir()] == [folder.path(SEAL).name]
    assert len(folder.read(SEAL, rows_of(1))) == len(ENTRIES)
