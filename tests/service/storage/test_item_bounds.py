"""Items of a conversation that are read up to a number of bytes, from a file and from PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from service.storage.responses.port import ConversationRecord, ItemRecord, StoreLimits
from service.storage.responses.sql.store import SqlStore
from tests.service.storage.store_locations import StoreLocation

LIMITS = StoreLimits(1e6, 1 << 20, 1 << 20)
SIZES = (50, 10, 10, 30, 40)  # of the items, with their ids


@pytest.fixture
def store(location: StoreLocation) -> Iterator[SqlStore]:
    """A store with a conversation of each of two owners."""
    with closing(location.open(LIMITS)) as store:
        for owner, sizes in {"a": SIZES, "b": [1000]}.items():
            items = [ItemRecord(f"i{number}", b"x" * (size - 2)) for number, size in enumerate(sizes)]
            store.conversations.create(ConversationRecord(owner, "c", 1, b""), items)
        yield store


@pytest.mark.parametrize(
    ("after", "max_items", "max_bytes", "descending", "expected"),
    [
        ("", 9, 1000, False, "01234"),
        ("", 2, 1000, False, "01"),
        ("", 9, 60, False, "012"),  # the third one exceeds the limit
        ("", 9, 59, False, "01"),
        ("", 9, 0, False, "01"),
        ("", 1, 0, False, "0"),
        ("i0", 9, 20, False, "123"),
        ("i0", 2, 20, False, "12"),
        ("i2", 9, 0, False, "34"),
        ("i4", 9, 10, False, ""),
        ("", 9, 69, True, "43"),
        ("", 9, 70, True, "432"),
        ("i3", 9, 10, True, "21"),
    ],
)
def test_items_end_after_the_bytes(
    store: SqlStore, after: str, max_items: int, max_bytes: int, expected: str, *, descending: bool
) -> None:
    """Items that too many bytes precede are left out, but not the second one."""
    found = store.conversations.items("a", "c", max_items, after, descending=descending, max_bytes=max_bytes)
    assert found is not None
    assert [(each.id, each.num_bytes) for each in found] == [(f"i{number}", SIZES[int(number)]) for number in expected]
