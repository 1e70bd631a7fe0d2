"""The stores of responses: owners, limits, age, deletion without traces, and unusable files."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from service.storage.responses.port import (
    Addition,
    ChainTooLong,
    ConversationRecord,
    ItemRecord,
    MetadataChanged,
    ResponseRecord,
    StoreFailed,
    StoreLimit,
    StoreLimits,
)
from service.storage.responses.sql.store import SqlStore
from service.storage.responses.sqlite.sqlite_store import SqliteStore
from tests.service.storage.store_locations import SqliteLocation, StoreLocation

LIMITS = StoreLimits(max_age_s=60, max_bytes_per_owner=100, max_bytes=250)
SECOND_NS = 1_000_000_000


@dataclass
class Clock:
    """A clock that tests set."""

    now_ns: int = 1000 * SECOND_NS

    def __call__(self) -> int:
        return self.now_ns


@dataclass
class Opened:
    """An open store, with its clock and location."""

    store: SqlStore
    clock: Clock
    location: StoreLocation

    def put(self, response_id: str, owner: str = "a", *, size: int = 10, previous: str = "") -> ResponseRecord:
        """Store and return a record with `size` bytes of content, dated now."""
        content = f"<{owner}/{response_id}>".encode().ljust(size, b".")[:size]
        record = ResponseRecord(owner, response_id, self.clock(), previous, content[:10], content[10:], b"")
        self.store.put(record)
        return record

    def ids(self, *names: str, owner: str = "a") -> list[str]:
        """Return which of these responses exist."""
        return [name for name in names if self.store.get(owner, name) is not None]

    def traces(self, text: bytes) -> list[str]:
        """Return the files or tables that contain a text."""
        return self.location.traces(text)


@pytest.fixture
def opened(location: StoreLocation) -> Iterator[Opened]:
    clock = Clock()
    store = location.open(LIMITS, clock, running_ns=clock)
    yield Opened(store, clock, location)
    store.close()


def test_record_survives_a_reopened_store(opened: Opened) -> None:
    """A record is read back unchanged, also after the store was opened again."""
    record = replace(opened.put("r1"), response=b"\0\xff", client_data=b"{}", previous_id="r0")
    opened.store.put(record)
    opened.store.close()
    again = opened.location.open(LIMITS, opened.clock)
    assert again.get("a", "r1") == record
    again.close()


def test_file_is_its_owners_only(tmp_path: Path) -> None:
    """Other users of the machine can't read it."""
    path = tmp_path / "responses.sqlite3"
    SqliteStore(path, LIMITS).close()
    assert path.stat().st_mode & 0o777 == 0o600


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


def test_record_of_another_request_is_not_replaced(opened: Opened) -> None:
    """A record is replaced by one of the same request only: the other one is refused, with the reason."""
    mine = opened.put("r1")
    with pytest.raises(StoreLimit, match="is that of another request"):
        opened.store.put(replace(mine, request=b"other"))
    opened.store.put(replace(mine, response=b"new"))
    assert opened.store.get("a", "r1") == replace(mine, response=b"new")


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
    limits = replace(LIMITS, max_bytes_per_owner=1 << 30, max_bytes=1 << 30)
    store = SqliteStore(tmp_path / "responses.sqlite3", limits, clock, running_ns=clock)
    many = Opened(store, clock, SqliteLocation(tmp_path))
    for index in range(300):
        many.put(f"r{index}", size=5000)
    before = (tmp_path / "responses.sqlite3").stat().st_size
    clock.now_ns += 61 * SECOND_NS
    assert store.purge() == 300
    assert (tmp_path / "responses.sqlite3").stat().st_size < before / 8
    store.close()


def test_deletion_leaves_no_trace(opened: Opened) -> None:
    """After a deletion no file or table has the content any more, which was there before."""
    opened.put("r1", size=90)
    assert opened.traces(b"<a/r1>")
    assert opened.store.delete("a", "r1")
    assert opened.traces(b"<a/r1>") == []
    assert not opened.store.delete("a", "r1")
    opened.put("r2")
    opened.store.close()  # which moves the log into the file
    assert opened.traces(b"<a/r2>") in (["responses.sqlite3"], ["responses"])


@pytest.mark.slow
def test_deletion_during_a_read_fails(tmp_path: Path) -> None:
    """If another process keeps the log from being emptied, the deletion fails, and a repeated one completes it."""
    clock = Clock()
    location = SqliteLocation(tmp_path)
    opened = Opened(location.open(LIMITS, clock, running_ns=clock), clock, location)
    opened.put("r1")
    reader = sqlite3.connect(location.path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM responses").fetchone()
    with pytest.raises(StoreFailed, match="deleted content is left"):
        opened.store.delete("a", "r1")
    assert opened.ids("r1") == []
    reader.close()
    opened.store.delete("a", "r1")
    assert opened.traces(b"<a/r1>") == []
    opened.store.close()


@pytest.mark.slow
def test_change_during_a_read_is_made(tmp_path: Path) -> None:
    """Whatever keeps the log from being emptied, a record is stored; what was deleted for it is erased later."""
    clock = Clock()
    location = SqliteLocation(tmp_path)
    opened = Opened(location.open(LIMITS, clock, running_ns=clock), clock, location)
    opened.put("r1", size=60)
    reader = sqlite3.connect(location.path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM responses").fetchone()
    opened.put("r2", size=60)
    assert opened.ids("r1", "r2") == ["r2"]
    reader.close()
    assert opened.traces(b"<a/r1>")
    assert opened.store.purge() == 0
    assert opened.traces(b"<a/r1>") == []
    opened.store.close()


def test_items_do_not_delete_the_response_that_adds_them(opened: Opened) -> None:
    """If a response does not fit together with what it adds to its conversation, neither is stored."""
    conversations = opened.store.conversations
    conversations.create(ConversationRecord("a", "c", opened.clock(), b""), [ItemRecord("i1", bytes(58))])
    addition = Addition("c", [ItemRecord("i2", bytes(18))])
    with pytest.raises(StoreLimit, match="a key may store 100"):
        opened.store.put(ResponseRecord("a", "r1", opened.clock(), "", bytes(30), b"", addition=addition))
    assert opened.ids("r1") == []
    assert [item.id for item in conversations.items("a", "c", 9) or ()] == ["i1"]
    opened.put("r0", size=15)
    opened.store.put(ResponseRecord("a", "r1", opened.clock(), "", bytes(15), b"", addition=addition))
    assert opened.ids("r0", "r1") == ["r1"]  # the other one is deleted
    assert opened.traces(b"<a/r0>") == []


def test_metadata_is_replaced_only_if_it_is_the_known(opened: Opened) -> None:
    """The comparison is part of the transaction; without it any metadata is replaced."""
    store = opened.store.conversations
    record = ConversationRecord("a", "c", 0, b"old")
    store.create(record, [])
    with pytest.raises(MetadataChanged):
        store.update(replace(record, metadata=b"new"), known=b"other")
    assert store.get("a", "c") == record
    assert store.update(replace(record, metadata=b"new"), known=b"old")
    assert store.update(replace(record, metadata=b"newer"))
    assert store.get("a", "c") == replace(record, metadata=b"newer")


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
