"""Encrypted responses: nothing readable in any file, and no value that was changed, moved or has another key."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from service.storage.responses.port import ResponseRecord, StoreFailed, StoreLimits
from service.storage.responses.seal import Seal
from service.storage.responses.sql.store import SqlStore
from tests.service.storage.store_locations import SqliteLocation, StoreLocation

LIMITS = StoreLimits(3600, 1 << 20, 1 << 20)
RECORD = ResponseRecord("a", "r1", 1 << 62, "r0", b"question", b"answer", b"details")
FIRST = ResponseRecord("a", "r0", 1 << 62, "", b"first", b"", b"")


def store_in(location: StoreLocation, key: bytes | None) -> SqlStore:
    return location.open(LIMITS, seal=None if key is None else Seal(key))


def test_content_is_read_with_the_key_alone(location: StoreLocation) -> None:
    """Records come back unchanged, also in a chain, and no file or table has a readable value of them."""
    store = store_in(location, bytes(32))
    for record in (FIRST, RECORD):
        store.put(record)
    assert store.get("a", "r1") == RECORD
    chain = store.chain("a", "r1", 9, 999)
    assert chain is not None
    assert [record.request for record in chain] == [b"first", b"question"]
    assert store.delete("a", "r0")
    assert [location.traces(text) for text in (b"question", b"answer", b"details")] == [[], [], []]
    store.close()
    again = store_in(location, bytes(32))
    assert again.get("a", "r1") == RECORD
    again.close()


@pytest.mark.parametrize(
    ("created_with", "opened_with", "reason"),
    [
        (bytes(32), b"1" * 32, "another key"),
        (bytes(32), None, "is encrypted, and there is no key"),
        (None, bytes(32), "is not encrypted"),
    ],
)
def test_a_store_keeps_its_key(
    location: StoreLocation, created_with: bytes | None, opened_with: bytes | None, reason: str
) -> None:
    """Another key, a missing one, or one for a store without encryption is noticed when the store is opened."""
    store_in(location, created_with).close()
    with pytest.raises(StoreFailed, match=reason):
        store_in(location, opened_with)
    store_in(location, created_with).close()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE responses SET response = request",
        "UPDATE responses SET request = (SELECT request FROM responses WHERE id = 'r0')",
        "UPDATE responses SET owner = 'b'",
        "UPDATE responses SET client_data = x''",
        "UPDATE responses SET response = substr(response, 1, length(response) - 1)",
        "UPDATE responses SET response = CAST(response || x'00' AS BLOB)",
    ],
)
def test_a_changed_value_is_not_returned(tmp_path: Path, change: str) -> None:
    """A value that was moved to another column, response or owner, shortened or extended is reported as damaged."""
    location = SqliteLocation(tmp_path)
    store = store_in(location, bytes(32))
    for record in (FIRST, RECORD):
        store.put(record)
    location.change(f"{change} WHERE id = 'r1'")
    with pytest.raises(StoreFailed, match="damaged"):
        store.get("b" if "owner" in change else "a", "r1")
    store.close()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file"),
        (b"no base64!", "is not base64"),
        (base64.b64encode(bytes(16)), r"must have 32 bytes \(got 16\)"),
    ],
)
def test_an_unusable_key_file_is_reported(tmp_path: Path, content: bytes | None, reason: str) -> None:
    """The reason has the path, and nothing of the file's content."""
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StoreFailed, match=f"{path}: .*{reason}") as caught:
        Seal.from_file(path)
    assert content is None or content.decode() not in str(caught.value)


def test_a_key_file_may_end_with_a_line_break(tmp_path: Path) -> None:
    """The output of `openssl rand -base64 32` is a key file."""
    path = tmp_path / "key"
    path.write_bytes(base64.b64encode(bytes(32)) + b"\n")
    assert Seal.from_file(path).open(Seal(bytes(32)).close(b"text", "x"), "x") == b"text"
