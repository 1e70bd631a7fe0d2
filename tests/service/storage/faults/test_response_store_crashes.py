"""A store of responses whose process is killed, or whose disk is full, loses nothing that it has reported."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from service.storage.responses.port import StoreLimits
from service.storage.responses.sqlite.sqlite_store import SqliteStore
from tests.waiting import GUARD_S

ROOT = Path(__file__).resolve().parents[4]
WRITER = """
import os, sys
from pathlib import Path
from service.storage.responses.port import ResponseRecord, StoreLimits
from service.storage.responses.sqlite.sqlite_store import SqliteStore

store = SqliteStore(Path(sys.argv[1]), StoreLimits(1e9, 1 << 40, 1 << 40))
for number in range(1 << 30):
    store.put(ResponseRecord("a", f"r{number}", 1 << 62, "", b"%d" % number * 5000, b"", b""))
    print(number, flush=True)
"""


def crash(path: Path, num_written: int) -> int:
    """Kill a writer after it has reported `num_written` records, and return the number that it reported at all."""
    with subprocess.Popen([sys.executable, "-c", WRITER, path], cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for _ in range(num_written):
            assert writer.stdout.readline()
        writer.kill()
        return num_written + len(writer.stdout.readlines())


def check_after_crash(path: Path, num_reported: int) -> None:
    """Fail unless every reported record is stored completely, and of the others at most the one being written."""
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)
    store = SqliteStore(path, StoreLimits(1e9, 1 << 40, 1 << 40))
    for number in range(num_reported):
        record = store.get("a", f"r{number}")
        assert record is not None
        assert record.request == b"%d" % number * 5000
    assert store.get("a", f"r{num_reported + 1}") is None
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize("num_written", [1, 7])
def test_killed_writer_loses_no_reported_record(tmp_path: Path, num_written: int) -> None:
    """A record whose `put` returned survives SIGKILL; one that was being written is stored completely or not at all."""
    path = tmp_path / "responses.sqlite3"
    check_after_crash(path, crash(path, num_written))


CHANGER = """
import sys
from pathlib import Path
from service.storage.responses.port import ResponseRecord, StoreLimits
from service.storage.responses.sqlite.sqlite_store import SqliteStore

store = SqliteStore(Path(sys.argv[1]), StoreLimits(1e9, 1 << 40, 1 << 40))
for number in range(1 << 30):
    store.put(ResponseRecord("a", f"r{number}", 1 << 62, "", b"<%d>" % number * 2000, b"", b""))
    print(f"+{number}", flush=True)
    if number % 2:
        store.delete("a", f"r{number}")
        print(f"-{number}", flush=True)
"""


@pytest.mark.long
def test_no_reported_change_is_lost_at_any_instant(tmp_path: Path) -> None:
    """After 200 kills at random instants the file is sound, with every stored record and without any deleted one."""
    draw = random.Random(34)
    for attempt in range(200):
        path = tmp_path / f"{attempt}.sqlite3"
        command = [sys.executable, "-S", "-c", CHANGER, str(path)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            reported = [writer.stdout.readline() for _ in range(draw.randrange(1, 8))]
            time.sleep(draw.random() * 0.005)  # into one of the next changes
            writer.kill()
            reported += writer.stdout.readlines()
        check_changes(path, [each.strip() for each in reported])


def check_changes(path: Path, reported: list[str]) -> None:
    """Fail unless exactly the reported changes hold, except for the one that was being made."""
    store = SqliteStore(path, StoreLimits(1e9, 1 << 40, 1 << 40))
    contents = b"".join(each.read_bytes() for each in path.parent.glob(f"{path.name}*"))
    for number in {int(each[1:]) for each in reported}:
        record = store.get("a", f"r{number}")
        if f"-{number}" in reported:
            assert record is None
            assert b"<%d>" % number not in contents
        elif number % 2 == 0 or record is not None:  # an odd one may have been deleted, but not reported yet
            assert record is not None
            assert record.request == b"<%d>" % number * 2000
    store.close()
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from service.storage.responses.port import StoreUnavailable, ResponseRecord, StoreFailed, StoreLimits
from service.storage.responses.sqlite.sqlite_store import SqliteStore

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = SqliteStore(Path(sys.argv[1]), StoreLimits(1e9, 1 << 40, 1 << 40))
store.put(ResponseRecord("a", "r1", 1 << 62, "", b"first", b"", b""))
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
try:
    store.put(ResponseRecord("a", "r2", 1 << 62, "", bytes(1_000_000), b"", b""))
except StoreFailed as error:
    print(error)
assert store.get("a", "r1").request == b"first"
assert store.get("a", "r2") is None
store.put(ResponseRecord("a", "r3", 1 << 62, "", b"small", b"", b""))
assert store.get("a", "r3").request == b"small"
store.close()
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 300_000))
for path in (Path(sys.argv[1]), Path(sys.argv[1]).with_name("new")):
    try:
        SqliteStore(path, StoreLimits(1e9, 1 << 40, 1 << 40))
    except StoreUnavailable as error:
        print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
assert SqliteStore(Path(sys.argv[1]), StoreLimits(1e9, 1 << 40, 1 << 40)).get("a", "r3").request == b"small"
"""


@pytest.mark.slow
def test_a_full_disk_rejects_one_record_and_harms_no_other(tmp_path: Path) -> None:
    """A record for which the disk has no room is not stored; those before and after it are. So fails an opening."""
    path = tmp_path / "responses.sqlite3"
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, path], cwd=ROOT, capture_output=True, text=True, check=True, timeout=GUARD_S
    )
    first, *reopened = done.stdout.splitlines()
    assert first.startswith(f"{path}: ")
    assert [line.partition(": ")[0] for line in reopened] == [str(path), str(tmp_path / "new")]
