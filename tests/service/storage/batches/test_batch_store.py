"""The stores of batches: leases, fairness among owners, expiry, limits of results, deletion without traces."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from service.storage.responses.batch_port import (
    BatchLimits,
    BatchRecord,
    BatchStatus,
    FileRecord,
    LineResult,
    LineState,
    NewLine,
    new_file_id,
)
from service.storage.responses.port import StoreFailed, StoreLimit, StoreLimits, UnknownItem
from service.storage.responses.seal import Seal
from service.storage.responses.sql.store import SqlStore
from tests.service.storage.store_locations import StoreLocation
from tests.service.storage.test_response_store import SECOND_NS, Clock

DAY_NS = 86_400 * SECOND_NS
LIMITS = BatchLimits(
    max_files=9, max_batches=9, max_lines=9, max_file_bytes=99, max_bytes_per_owner=999, max_bytes=1999
)
ALL = (LineState.SUCCEEDED, LineState.FAILED, LineState.EXPIRED)


@dataclass
class Opened:
    """An open store, with its clock and location."""

    store: SqlStore
    clock: Clock
    location: StoreLocation
    seal: Seal | None

    def create(self, batch_id: str, num_lines: int = 3, owner: str = "a") -> None:
        """Store a batch whose lines name it."""
        batch = BatchRecord(owner, batch_id, self.clock(), self.clock() + 60 * SECOND_NS, b"description", b"caller")
        assert self.store.batches.begin(batch) is None
        lines = [NewLine(f"<{batch_id} {n}>".encode()) for n in range(num_lines)]
        self.store.batches.append(owner, batch_id, lines)
        self.store.batches.complete(owner, batch_id, b"<digest>")

    def claim(self, holder: str, most: int = 9) -> list[tuple[str, str, int]]:
        return [line.key for line in self.store.batches.claim(holder, 5, most)]

    def finish(self, holder: str, *keys: tuple[str, str, int], size: int = 9) -> None:
        result = b"answer".ljust(size, b".")
        self.store.batches.finish(
            holder, [LineResult(key, LineState.SUCCEEDED, result, b"full") for key in keys]
        )  # fmt: skip

    def status(self, batch_id: str, owner: str = "a") -> tuple[BatchStatus, int, int]:
        batch = self.store.batches.get(owner, batch_id)
        assert batch is not None
        return batch.status, batch.num_succeeded, batch.num_failed

    def traces(self, text: bytes) -> list[str]:
        """Return the files or tables that contain a text."""
        return self.location.traces(text)


@pytest.fixture(params=["plain", "sealed"])
def opened(request: pytest.FixtureRequest, location: StoreLocation) -> Iterator[Opened]:
    clock = Clock()
    seal = Seal(bytes(32)) if request.param == "sealed" else None
    limits = StoreLimits(max_age_s=10 * 86_400, max_bytes_per_owner=100, max_bytes=250)
    store = location.open(limits, clock, seal, clock, batch_limits=LIMITS)
    yield Opened(store, clock, location, seal)
    store.close()


def test_line_is_held_by_one_process_until_its_lease_ends(opened: Opened) -> None:
    """A dead holder's lines are claimed by another one, and its late results change nothing."""
    opened.create("b")
    mine = opened.claim("one", 2)
    theirs = opened.claim("two")
    assert [index for _, _, index in [*mine, *theirs]] == [0, 1, 2]
    assert opened.claim("three") == []
    opened.clock.now_ns += 4 * SECOND_NS
    assert set(opened.store.batches.renew("two", 5)) == set(theirs)
    opened.clock.now_ns += 2 * SECOND_NS
    assert opened.claim("three") == mine
    opened.finish("one", *mine)
    assert opened.status("b") == (BatchStatus.IN_PROGRESS, 0, 0)
    opened.finish("three", *mine)
    opened.finish("three", *mine)
    opened.finish("two", *theirs)
    assert opened.status("b") == (BatchStatus.COMPLETED, 3, 0)
    assert [each.index for each in opened.store.batches.results("a", "b", -1, ALL, 9)] == [0, 1, 2]


def test_owners_take_turns(opened: Opened) -> None:
    """An owner with fewer held lines is first, whatever another one has queued before."""
    opened.create("large", 6)
    opened.clock.now_ns += 1
    opened.create("small", 2, owner="z")
    assert [batch for _, batch, _ in opened.claim("h", 5)] == ["large", "small", "large", "small", "large"]


def test_released_line_waits(opened: Opened) -> None:
    """A line is claimed again after its delay; claims that aren't counted don't add up."""
    opened.create("b", 1)
    ((key),) = opened.claim("h")
    opened.store.batches.release("h", key, 2, is_counted=False)
    assert opened.claim("h") == []
    opened.clock.now_ns += 3 * SECOND_NS
    (line,) = opened.store.batches.claim("h", 5, 1)
    assert line.num_claims == 1


def test_batch_expires(opened: Opened) -> None:
    """When its time has passed, lines without a result are expired, and a late result is refused."""
    opened.create("b")
    first, *others = opened.claim("h")
    opened.finish("h", first)
    assert opened.store.batches.expire() == 0
    opened.clock.now_ns += 61 * SECOND_NS
    assert opened.store.batches.expire() == 1
    opened.finish("h", *others)
    assert opened.status("b") == (BatchStatus.EXPIRED, 1, 2)
    states = [each.state for each in opened.store.batches.results("a", "b", -1, ALL, 9)]
    assert states == [LineState.SUCCEEDED, LineState.EXPIRED, LineState.EXPIRED]
    assert [file.id for file in opened.store.batches.files.list("a", 9)] == ["b-errors", "b-output"]


def test_digest_of_the_requests_is_encrypted(opened: Opened) -> None:
    """With it, a guess of all requests of a batch could be confirmed."""
    opened.create("b")
    assert bool(opened.traces(b"<digest>")) == (opened.seal is None)
    batch = opened.store.batches.get("a", "b")
    assert batch is not None
    assert batch.digest == b"<digest>"


def test_foreign_batch_does_not_exist(opened: Opened) -> None:
    """Another owner neither reads, lists, cancels nor deletes a batch, a file or a result."""
    opened.create("b")
    store = opened.store.batches
    store.files.begin(FileRecord("a", "f", opened.clock(), "name"))
    store.files.append("a", "f", b"content")
    store.files.complete("a", "f")
    assert (store.get("z", "b"), store.cancel("z", "b"), store.delete("z", "b")) == (None, None, False)
    assert (store.files.get("z", "f"), store.files.part("z", "f", 0), store.files.delete("z", "f")) == (
        None,
        None,
        False,
    )
    assert (list(store.list("z", 9)), list(store.files.list("z", 9))) == ([], [])
    assert opened.status("b")[0] is BatchStatus.IN_PROGRESS


def test_answer_beyond_the_limit_is_replaced_by_an_error(opened: Opened) -> None:
    """A result that does not fit fails with the fallback, and the batch continues."""
    opened.create("b")
    first, second, third = opened.claim("h")
    opened.finish("h", first, size=900)
    opened.finish("h", second, size=900)
    opened.finish("h", third)
    assert opened.status("b") == (BatchStatus.COMPLETED, 2, 1)
    assert [each.result for each in opened.store.batches.results("a", "b", -1, [LineState.FAILED], 9)] == [b"full"]


def test_limit_of_all_owners(opened: Opened) -> None:
    """When all owners together have their limit, nothing more is stored."""
    for owner in ("x", "y"):
        for number in range(9):
            opened.store.batches.files.begin(FileRecord(owner, f"f{number}", opened.clock(), "name"))
            opened.store.batches.files.append(owner, f"f{number}", bytes(99))
    opened.store.batches.files.begin(FileRecord("z", "f", opened.clock(), "name"))
    opened.store.batches.files.append("z", "f", bytes(99))
    opened.store.batches.files.begin(FileRecord("w", "f", opened.clock(), "name"))
    opened.store.batches.files.append("w", "f", bytes(99))
    opened.store.batches.files.begin(FileRecord("v", "f", opened.clock(), "name"))
    with pytest.raises(StoreLimit, match="its limit is 1999 bytes"):
        opened.store.batches.files.append("v", "f", bytes(99))


def age(opened: Opened) -> None:
    for _ in range(22):
        opened.clock.now_ns += DAY_NS // 2
        opened.store.purge()


def deletions() -> dict[str, Callable[[Opened], object]]:
    """Return the ways in which a batch, or its results, are deleted."""
    return {
        "batch": lambda opened: opened.store.batches.delete("a", "b"),
        "file of results": lambda opened: opened.store.batches.files.delete("a", "b-output"),
        "owner": lambda opened: opened.store.delete_owner("a"),
        "age": age,
    }


@pytest.mark.parametrize("way", deletions())
def test_deletion_leaves_no_traces(opened: Opened, way: str) -> None:
    """No file or table has the request or the answer after a deletion."""
    opened.create("b")
    opened.finish("h", *opened.claim("h"))
    assert bool(opened.traces(b"<b 1>")) == (opened.seal is None)
    deletions()[way](opened)
    assert opened.traces(b"<b 1>") == opened.traces(b"answer...") == []


def test_uploads_that_were_not_completed_are_purged(opened: Opened) -> None:
    """They don't exist for anyone, and are deleted an hour later; the same batch can be begun again before."""
    batch = BatchRecord("a", "b", opened.clock(), opened.clock() + DAY_NS, b"d", b"c")
    store = opened.store.batches
    store.begin(batch)
    store.append("a", "b", [NewLine(b"line")])
    store.files.begin(FileRecord("a", "f", opened.clock(), "name"))
    assert (store.get("a", "b"), store.files.get("a", "f"), opened.claim("h")) == (None, None, [])
    assert store.begin(batch) is None
    store.append("a", "b", [NewLine(b"other")])
    opened.clock.now_ns += 3601 * SECOND_NS
    assert opened.store.purge() == 2
    with pytest.raises(StoreFailed):
        store.append("a", "b", [NewLine(b"line")])


@pytest.mark.parametrize("descending", [False, True])
def test_list_continues_after_a_deleted_file(opened: Opened, descending: bool) -> None:  # noqa: FBT001  a parameter
    """Each page begins where the one before has ended, though all of its files are gone."""
    files, names = opened.store.batches.files, []
    for number in range(4):
        opened.clock.now_ns += number % 2  # two of them at one instant
        names.append(new_file_id(opened.clock()))
        files.begin(FileRecord("a", names[-1], opened.clock(), "name"))
        files.complete("a", names[-1])
        opened.create(f"b{number}")
        opened.finish("h", *opened.claim("h"))
        names.append(f"b{number}-output")
    found: list[str] = []
    while page := files.list("a", 2, found[-1] if found else "", descending=descending):
        found += [file.id for file in page]
        for file in page:
            files.delete("a", file.id)
    assert sorted(found) == sorted(names)
    for unknown in ("x", "-output", "b9-output", new_file_id(0)[1:]):
        with pytest.raises(UnknownItem):
            files.list("a", 2, unknown)


def test_deleted_lines_no_longer_count(opened: Opened) -> None:
    """The bytes of requests and results can be used again after a cancellation, and after the results are deleted."""
    opened.create("b")  # 3 lines of 5 bytes
    opened.finish("h", *opened.claim("h", 2), size=450)
    store = opened.store.batches

    def num_bytes() -> int:
        """Return the bytes of the owner, which the error of a batch that does not fit has."""
        store.begin(BatchRecord("a", "large", opened.clock(), opened.clock() + DAY_NS, b"", b""))
        with pytest.raises(StoreLimit) as limit:
            store.append("a", "large", [NewLine(bytes(1000))])
        list(store.abandon("a", "large", b""))
        found = re.search(r"have (\d+) bytes", str(limit.value))
        assert found is not None
        return int(found[1]) - 1000

    assert num_bytes() == 3 * 5 + 2 * 450
    store.cancel("a", "b")
    assert num_bytes() == 2 * 5 + 2 * 450
    assert store.files.delete("a", "b-output")
    assert num_bytes() == 0


def test_second_upload_of_a_batch_replaces_the_first(opened: Opened) -> None:
    """What follows of the first one fails, and its end deletes nothing of the second one."""
    store = opened.store.batches
    for upload in (b"one", b"two"):
        store.begin(BatchRecord("a", "b", opened.clock(), opened.clock() + DAY_NS, b"d", b"c", upload))
        store.append("a", "b", [NewLine(b"line of " + upload)], upload=upload)
    with pytest.raises(StoreFailed, match="begun again"):
        store.append("a", "b", [NewLine(b"line")], upload=b"one")
    with pytest.raises(StoreFailed, match="begun again"):
        store.complete("a", "b", b"digest", upload=b"one")
    list(store.abandon("a", "b", b"one"))
    assert store.complete("a", "b", b"digest", upload=b"two").num_lines == 1
    list(store.abandon("a", "b", b"two"))  # it is complete
    assert [line.request for line in store.claim("h", 5, 9)] == [b"line of two"]
    assert opened.traces(b"line of one") == []


def test_check_reads_every_value(opened: Opened) -> None:
    """`sluice store check` opens each encrypted value of files and batches, and counts the rows."""
    opened.create("b")
    opened.finish("h", *opened.claim("h", 1))
    opened.store.batches.files.begin(FileRecord("a", "f", opened.clock(), "name"))
    opened.store.batches.files.append("a", "f", b"content")
    lines = opened.location.check(opened.seal)
    assert {"1 files", "1 batches", "3 requests of batches"} <= set(lines)
    # Two fields of the batch, the requests, one result, the file's name and its content.
    assert lines[-1] == ("not encrypted" if opened.seal is None else "9 encrypted values")
