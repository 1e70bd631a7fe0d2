"""The conversations in an SQL database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from service.storage.responses.port import (
    Addition,
    ConversationRecord,
    ConversationStore,
    ItemRecord,
    MetadataChanged,
    UnknownItem,
)
from service.storage.responses.sql.content import delete_marked, mark
from service.storage.responses.sql.database import Execute, SqlDatabase
from service.storage.responses.sql.deleted_items import SqlDeletedItems
from service.storage.responses.sql.records import SqlRecords

_PRESENT: Final = "conversations WHERE owner = ? AND id = ? AND updated_ns > ?"
_OF: Final = "owner = ? AND conversation = ?"


class SqlConversations(ConversationStore):
    """A `ConversationStore` in a database."""

    def __init__(self, database: SqlDatabase, records: SqlRecords, now_ns: Callable[[], int]) -> None:
        self._database = database
        self._records = records
        self._now_ns = now_ns
        self._deleted = SqlDeletedItems(database)

    def create(self, conversation: ConversationRecord, items: Sequence[ItemRecord]) -> None:
        owner, conversation_id = conversation.owner, conversation.id
        num_bytes = len(conversation_id) + len(conversation.metadata)
        with self._database.transaction() as execute:
            self._records.make_room(execute, owner, "", num_bytes, f"the conversation has {num_bytes} bytes")
            execute(
                "INSERT INTO conversations VALUES (?, ?, ?, ?, ?, ?)",
                (
                    owner, conversation_id, conversation.created_ns, self._now_ns(), num_bytes,
                    self._database.sealed(conversation.metadata, f"{owner}\0{conversation_id}\0metadata"),
                ),
            )  # fmt: skip
            self.append(execute, owner, Addition(conversation_id, items))

    def get(self, owner: str, conversation_id: str) -> ConversationRecord | None:
        row = self._database.row(
            f"SELECT created_ns, metadata FROM {_PRESENT}",  # noqa: S608  constants
            (owner, conversation_id, self._records.oldest_ns()),
        )
        if row is None:
            return None
        metadata = self._database.opened(row[1], f"{owner}\0{conversation_id}\0metadata")
        return ConversationRecord(owner, conversation_id, row[0], metadata)

    def update(self, conversation: ConversationRecord, known: bytes | None = None) -> bool:
        owner, conversation_id = conversation.owner, conversation.id
        num_bytes = len(conversation_id) + len(conversation.metadata)
        with self._database.transaction() as execute:
            if (found := self.get(owner, conversation_id)) is None:
                return False
            if known is not None and found.metadata != known:
                raise MetadataChanged
            self._records.make_room(execute, owner, "", num_bytes, f"the conversation has {num_bytes} bytes")
            sealed = self._database.sealed(conversation.metadata, f"{owner}\0{conversation_id}\0metadata")
            execute(
                "UPDATE conversations SET metadata = ?, num_bytes = ?, updated_ns = ? WHERE owner = ? AND id = ?",
                (sealed, num_bytes, self._now_ns(), owner, conversation_id),
            )
        return True

    def delete(self, owner: str, conversation_id: str) -> bool:
        *_, was_there = self.delete_steps(owner, conversation_id)
        return was_there

    def delete_steps(self, owner: str, conversation_id: str) -> Iterator[bool]:
        key = (owner, conversation_id)
        with self._database.transaction() as execute:
            was_there = self._exists(*key)
            mark(execute, "conversations", *key)
        for _ in delete_marked(self._database, "conversations", *key):
            yield was_there
        self._database.erase()
        yield was_there

    def add(self, owner: str, addition: Addition) -> bool:
        with self._database.transaction() as execute:
            return self.append(execute, owner, addition)

    def append(self, execute: Execute, owner: str, addition: Addition, kept_id: str = "") -> bool:
        """Add items as a part of a transaction. Return False if there is no such conversation. Raise StoreLimit.

        The response `kept_id` is not deleted for them.
        """
        conversation_id = addition.conversation_id
        if not self._exists(owner, conversation_id):
            return False
        num_bytes = sum(item.num_bytes for item in addition.items)
        self._records.make_room(execute, owner, kept_id, num_bytes, f"the items have {num_bytes} bytes")
        for item in addition.items:
            sealed = self._database.sealed(item.item, f"{owner}\0{conversation_id}\0{item.id}")
            execute(
                "INSERT INTO items (owner, conversation, id, num_bytes, item) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT DO NOTHING",
                (owner, conversation_id, item.id, item.num_bytes, sealed),
            )
        execute(
            "UPDATE conversations SET updated_ns = ? WHERE owner = ? AND id = ?",
            (self._now_ns(), owner, conversation_id),
        )
        return True

    def items(
        self,
        owner: str,
        conversation_id: str,
        max_items: int,
        after: str = "",
        *,
        descending: bool = False,
        max_bytes: int | None = None,
    ) -> Sequence[ItemRecord] | None:
        if not self._exists(owner, conversation_id):
            return None
        key = (owner, conversation_id)
        begin = "" if not after else f"AND position {'<' if descending else '>'} ?"
        values: tuple[str | int, ...] = key if not after else (*key, self._begin(*key, after))
        order = "ORDER BY position" + (" DESC" if descending else "")
        chosen = f"SELECT position, num_bytes FROM items WHERE {_OF} {begin} {order} LIMIT ?"  # noqa: S608  constants
        values = (*values, max_items)
        if max_bytes is not None:
            total = f"SUM(num_bytes) OVER ({order}) - num_bytes AS num_before, ROW_NUMBER() OVER ({order}) AS number"
            summed = f"SELECT position, {total} FROM ({chosen}) AS chosen"  # noqa: S608  constants
            chosen = f"SELECT position FROM ({summed}) AS summed WHERE num_before <= ? OR number <= 2"  # noqa: S608  constants
            values = (*values, max_bytes)
        rows = self._database.rows(
            f"SELECT id, item FROM items JOIN ({chosen}) AS chosen USING (position) "  # noqa: S608  constants
            f"WHERE {_OF} {order}",
            (*values, *key),
        )
        return [self._opened(owner, conversation_id, *row) for row in rows]

    def item(self, owner: str, conversation_id: str, item_id: str) -> ItemRecord | None:
        if not self._exists(owner, conversation_id):
            return None
        row = self._database.row(
            f"SELECT id, item FROM items WHERE {_OF} AND id = ?",  # noqa: S608  constants
            (owner, conversation_id, item_id),
        )
        return None if row is None else self._opened(owner, conversation_id, *row)

    def delete_item(self, owner: str, conversation_id: str, item_id: str) -> bool:
        with self._database.transaction() as execute:
            was_there = self._exists(owner, conversation_id)
            position = self._position(owner, conversation_id, item_id)
            execute(f"DELETE FROM items WHERE {_OF} AND id = ?", (owner, conversation_id, item_id))  # noqa: S608  constants
            if was_there and position is not None:
                self._deleted.add(execute, owner, conversation_id, item_id, position)
        self._database.erase()
        return was_there and position is not None

    def _exists(self, owner: str, conversation_id: str) -> bool:
        values = (owner, conversation_id, self._records.oldest_ns())
        return self._database.row(f"SELECT 1 FROM {_PRESENT}", values) is not None  # noqa: S608  constants

    def _position(self, owner: str, conversation_id: str, item_id: str) -> int | None:
        """Return the position of an item; None if there is no such item."""
        query = f"SELECT position FROM items WHERE {_OF} AND id = ?"  # noqa: S608  constants
        row = self._database.row(query, (owner, conversation_id, item_id))
        return None if row is None else int(row[0])

    def _begin(self, owner: str, conversation_id: str, after: str) -> int:
        """Return the position of an item, also if it was deleted. Raise UnknownItem."""
        position = self._position(owner, conversation_id, after)
        if position is None:
            position = self._deleted.position(owner, conversation_id, after)
        if position is None:
            raise UnknownItem
        return position

    def _opened(self, owner: str, conversation_id: str, item_id: str, item: bytes) -> ItemRecord:
        return ItemRecord(item_id, self._database.opened(item, f"{owner}\0{conversation_id}\0{item_id}"))
