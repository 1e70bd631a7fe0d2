"""Listings of a conversation that continue after an item that was deleted meanwhile."""

from __future__ import annotations

import pytest

from service.storage.responses.port import Addition, ConversationRecord, ItemRecord, StoreLimits, UnknownItem
from service.storage.responses.sql.deleted_items import MAX_DELETED
from service.storage.responses.sql.store import SqlStore
from tests.service.storage.store_locations import StoreLocation

LIMITS = StoreLimits(1e6, 1 << 20, 1 << 20)


def filled(location: StoreLocation, num_items: int) -> SqlStore:
    """Return an open store with a conversation `c` of the owner `a`."""
    store = location.open(LIMITS)
    items = [ItemRecord(f"msg_secret_in{number}", b"Quetzalcoatl") for number in range(num_items)]
    store.conversations.create(ConversationRecord("a", "c", 1, b""), items)
    return store


def numbers(store: SqlStore, after: str = "", *, most: int = 9, descending: bool = False) -> list[int]:
    """Return the numbers of the items of a page."""
    found = store.conversations.items("a", "c", most, after, descending=descending)
    assert found is not None
    return [int(item.id.partition("_in")[2]) for item in found]


@pytest.mark.parametrize("descending", [False, True])
def test_listing_continues_after_each_deleted_item(location: StoreLocation, *, descending: bool) -> None:
    """A client that deletes what it has listed sees every item once; an item that is added later has a later place."""
    store = filled(location, 5)
    seen: list[int] = []
    after = ""
    while page := numbers(store, after, most=2, descending=descending):
        seen += page
        for number in page:
            after = f"msg_secret_in{number}"
            assert store.conversations.delete_item("a", "c", after)
    assert seen == sorted(range(5), reverse=descending)
    store.conversations.add("a", Addition("c", [ItemRecord("msg_secret_in7", b"")]))
    assert numbers(store, "msg_secret_in4") == [7]
    store.close()


def test_marks_of_deleted_items_have_no_content_and_go_with_the_conversation(location: StoreLocation) -> None:
    """Neither the id nor the content of a deleted item is in the files, and nothing counts after the deletion."""
    store = filled(location, 2)
    store.conversations.delete_item("a", "c", "msg_secret_in0")
    store.conversations.delete_item("a", "c", "msg_secret_in1")
    assert location.traces(b"msg_secret") == location.traces(b"Quetzalcoatl") == []
    assert numbers(store, "msg_secret_in0") == []
    store.conversations.delete("a", "c")
    store.close()
    assert location.count("deleted_items") == location.count("usage") == 0


def test_other_owners_and_conversations_have_other_marks(location: StoreLocation) -> None:
    """A deleted item is unknown in every other conversation, also of the same id."""
    store = filled(location, 1)
    for owner, conversation_id in (("b", "c"), ("a", "d")):
        store.conversations.create(ConversationRecord(owner, conversation_id, 1, b""), ())
    store.conversations.delete_item("a", "c", "msg_secret_in0")
    for owner, conversation_id in (("b", "c"), ("a", "d")):
        with pytest.raises(UnknownItem):
            store.conversations.items(owner, conversation_id, 9, "msg_secret_in0")
    store.close()


def test_only_the_last_deleted_items_are_remembered(location: StoreLocation) -> None:
    """The number of marks of a conversation is limited."""
    store = filled(location, MAX_DELETED + 2)
    for number in range(MAX_DELETED + 1):
        store.conversations.delete_item("a", "c", f"msg_secret_in{number}")
    assert numbers(store, "msg_secret_in1") == [MAX_DELETED + 1]
    with pytest.raises(UnknownItem):
        numbers(store, "msg_secret_in0")
    store.close()
    assert location.count("deleted_items") == MAX_DELETED
