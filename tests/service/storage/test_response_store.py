"""The store of responses on SQLite: owners, limits, age, deletion without traces, crashes and full disks."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from service.storage.responses.port import ChainTooLong, ResponseRecord, StoreFailed, StoreLimit, StoreLimits
from service.storage.responses.sqlite_store import SqliteStore
from tests.waiting import GUARD_S

LIMITS = StoreLimits(max_age_s=60, max_bytes_per_owner=100, max_bytes=250)
SECOND_NS = 1_000_000_000
ROOT = Path(__file__).resolve().parents[3]


@dataclass
class Clock:
    """A clock that tests set."""

    now_ns: int = 1000 * SECOND_NS

    def __call__(self) -> int:
        return self.now_ns


@dataclass
class Opened:
    """An open store, with its clock and the folder of its files."""

    store: SqliteStore
    clock: Clock
    folder: Path

    def put(self, response_id: str, owner: str = "a", *, size: int = 10, previous: str = "") -> ResponseRecord:
        """Store and return a record with `size` bytes of content, dated now."""
        content = f"<{owner}/{response_id}>".encode().ljust(size, b".")[:size]
        record = ResponseRecord(owner, response_id, self.clock(), previous, content, b"", b"")
        self.store.put(record)
        return record

    def ids(self, *names: str, owner: str = "a") -> list[str]:
        """Return which of these responses exist."""
        return [name for name in names if self.store.get(owner, name) is not None]

    def traces(self, text: bytes) -> list[str]:
        """Return the files that contain a text."""
        return sorted(path.name for path in self.folder.iterdir() if text in path.read_bytes())


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    clock = Clock()
    store = SqliteStore(tmp_path / "responses.sqlite3", LIMITS, clock)
    yield Opened(store, clock, tmp_path)
    store.close()


def test_record_survives_a_reopened_store(opened: Opened) -> None:
    """A record is read back unchanged, also after the file was opened again, and the file is its owner's only."""
    record = replace(opened.put("r1"), response=b"\0\xff", client_data=b"{}", previous_id="r0")
    opened.store.put(record)
    opened.store.close()
    (path,) = opened.folder.glob("*.sqlite3")
    assert path.stat().st_mode & 0o777 == 0o600
    again = SqliteStore(path, LIMITS, opened.clock)
    assert again.get("a", "r1") == record
    again.close()


def test_records_belong_to_their_owners(opened: Opened) -> None:
    """Another owner neither reads, continues, deletes nor replaces a record, even under the same id."""
    mine = opened.put("r1")
    assert opened.store.get("b", "r1") is None
    assert opened.store.chain("b", "r1", 9, 999) is None
    assert not opened.store.delete("b", "r1")
    theirs = opened.put("r1", "b")
    assert (opened.store.get("a", "r1"), opened.store.get("b", "r1")) == (mine, theirs)
    opened.put("r2", "b", previous="r1")
    opened.store.delete("b", "r1")
    assert opened.store.chain("b", "r2", 9, 999) is None  # not by way of the record of `a`
    assert opened.ids("r1") == ["r1"]


def test_a_chain_is_returned_in_order_within_its_limits(opened: Opened) -> None:
    """The first response comes first; a missing one, too many and too many bytes are distinguished."""
    for index in range(4):
        opened.put(f"r{index}", previous=f"r{index - 1}" if index else "")
    chain = opened.store.chain("a", "r3", 4, 40)
    assert chain is not None
    assert [record.id for record in chain] == ["r0", "r1", "r2", "r3"]
    for max_records, max_bytes, limit in [(3, 40, "more than 2 others"), (4, 39, "more than 39 bytes")]:
        with pytest.raises(ChainTooLong, match=limit):
            opened.store.chain("a", "r3", max_records, max_bytes)
    opened.store.delete("a", "r1")
    assert opened.store.chain("a", "r3", 4, 40) is None


def test_oldest_records_of_the_owner_are_replaced(opened: Opened) -> None:
    """An owner's oldest records are deleted for a new one, those of others never."""
    for index in range(5):
        opened.clock.now_ns += SECOND_NS
        opened.put(f"r{index}", size=30)
    opened.put("r0", "b", size=30)
    assert opened.ids(*(f"r{index}" for index in range(5))) == ["r2", "r3", "r4"]
    opened.put("r4", size=40)  # replaces its former self, and needs no other's room
    assert opened.ids("r2", "r3", "r4") == ["r2", "r3", "r4"]
    assert opened.traces(b"<a/r0>") == []
    with pytest.raises(StoreLimit, match="have 101 bytes; a key may store 100"):
        opened.put("r5", size=101)
    assert opened.ids("r2", "r3", "r4") == ["r2", "r3", "r4"]


def test_full_store_rejects_new_records(opened: Opened) -> None:
    """The limit of all owners together deletes nobody's records: new ones are rejected until there is room."""
    for owner in "abc":
        opened.put("r1", owner, size=80)
    with pytest.raises(StoreLimit, match="its limit is 250 bytes"):
        opened.put("r1", "d", size=11)
    opened.store.delete("c", "r1")
    opened.put("r1", "d", size=11)
    assert opened.ids("r1", owner="b") == ["r1"]


@pytest.mark.parametrize("jump_s", [60, 3600])
def test_records_expire(opened: Opened, jump_s: int) -> None:
    """A record that is too old exists for nobody, and a purge removes it and its bytes from every file."""
    opened.put("old")
    opened.put("old", "b")
    opened.clock.now_ns += (jump_s - 1) * SECOND_NS
    opened.put("new", previous="old")
    opened.clock.now_ns += SECOND_NS
    assert opened.ids("old", "new") == ["new"]
    assert opened.store.chain("a", "new", 9, 999) is None
    assert not opened.store.delete("a", "old")
    assert opened.store.purge() == 1
    assert opened.traces(b"/old>") == []
    assert opened.store.purge() == 0


@pytest.mark.slow
def test_a_purge_removes_more_than_one_batch(tmp_path: Path) -> None:
    """All expired records go, however many; the file becomes smaller."""
    clock = Clock()
    store = SqliteStore(
        tmp_path / "responses.sqlite3", replace(LIMITS, max_bytes_per_owner=1 << 30, max_bytes=1 << 30), clock
    )
    many = Opened(store, clock, tmp_path)
    for index in range(300):
        many.put(f"r{index}", size=5000)
    before = (tmp_path / "responses.sqlite3").stat().st_size
    clock.now_ns += 61 * SECOND_NS
    assert store.purge() == 300
    assert (tmp_path / "responses.sqlite3").stat().st_size < before / 10
    store.close()


def test_deletion_leaves_no_trace(opened: Opened) -> None:
    """After a deletion no file has the content any more, which was there before, in the log or in the file itself."""
    opened.put("r1", size=90)
    assert opened.traces(b"<a/r1>")
    assert opened.store.delete("a", "r1")
    assert opened.traces(b"<a/r1>") == []
    assert not opened.store.delete("a", "r1")
    opened.put("r2")
    opened.store.close()  # which moves the log into the file
    assert opened.traces(b"<a/r2>") == ["responses.sqlite3"]


@pytest.mark.slow
def test_deletion_during_a_read_fails(opened: Opened) -> None:
    """If another process keeps the log from being emptied, the deletion fails, and a repeated one completes it."""
    opened.put("r1")
    reader = sqlite3.connect(opened.folder / "responses.sqlite3", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM responses").fetchone()
    with pytest.raises(StoreFailed, match="deleted content is left"):
        opened.store.delete("a", "r1")
    assert opened.ids("r1") == []
    reader.close()
    opened.store.delete("a", "r1")
    assert opened.traces(b"<a/r1>") == []


WRITER = """
import os, sys
from pathlib import Path
from service.storage.responses.port import ResponseRecord, StoreLimits
from service.storage.responses.sqlite_store import SqliteStore

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
    """Fail unless every reported record is there and whole, and at most the one that was being written, too."""
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
    """A record whose `put` returned survives SIGKILL; one that was being written is there whole or not at all."""
    path = tmp_path / "responses.sqlite3"
    check_after_crash(path, crash(path, num_written))


CHANGER = """
import sys
from pathlib import Path
from service.storage.responses.port import ResponseRecord, StoreLimits
from service.storage.responses.sqlite_store import SqliteStore

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
from service.storage.responses.port import ResponseRecord, StoreFailed, StoreLimits
from service.storage.responses.sqlite_store import SqliteStore

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = SqliteStore(Path(sys.argv[1]), StoreLimits(1e9, 1 << 40, 1 << 40))
store.put(ResponseRecord("a", "r1", 1 << 62, "", b"first", b"", b""))
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    store.put(ResponseRecord("a", "r2", 1 << 62, "", bytes(1_000_000), b"", b""))
except StoreFailed as error:
    print(error)
assert store.get("a", "r1").request == b"first"
assert store.get("a", "r2") is None
store.put(ResponseRecord("a", "r3", 1 << 62, "", b"small", b"", b""))
assert store.get("a", "r3").request == b"small"
"""


@pytest.mark.slow
def test_a_full_disk_rejects_one_record_and_harms_no_other(tmp_path: Path) -> None:
    """A record for which the disk has no room is not stored; those before and after it are."""
    path = tmp_path / "responses.sqlite3"
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, path], cwd=ROOT, capture_output=True, text=True, check=True, timeout=GUARD_S
    )
    assert done.stdout.startswith(f"{path}: ")


def corrupted(path: Path) -> None:
    path.write_bytes(b"no database " * 1000)


def newer(path: Path) -> None:
    SqliteStore(path, LIMITS).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()


def in_a_missing_folder(path: Path) -> None:
    path.parent.rmdir()


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [(corrupted, "file is not a database"), (newer, "schema version 99"), (in_a_missing_folder, "No such file")],
)
def test_unusable_file_is_reported_and_unchanged(tmp_path: Path, prepare: Callable[[Path], None], reason: str) -> None:
    """A file of something else, of a newer release or in no folder fails the start with its path and the reason."""
    path = tmp_path / "folder" / "responses.sqlite3"
    path.parent.mkdir()
    prepare(path)
    before = path.read_bytes() if path.exists() else None
    with pytest.raises(StoreFailed, match=reason):
        SqliteStore(path, LIMITS)
    assert (path.read_bytes() if path.exists() else None) == before
