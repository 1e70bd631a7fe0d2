"""Conversations of the current caller: create, read, change and delete them and their items."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import TypeVar

from sluice.v1 import conversation_pb2, stored_response_pb2

from service.answering.errors import ConversationChanged, ConversationNotFound, StoreFull, StoreUnavailable, StoringOff
from service.answering.item_references import check_items
from service.calls.call import current_caller
from service.contract.parts.answer import timestamp
from service.contract.responses.conversation import (
    etag_of,
    to_conversation,
    to_item_records,
    to_record,
    to_stored_items,
)
from service.contract.responses.page import MAX_PAGE_BYTES, num_on_page, page_size
from service.generation.errors import InvalidRequest
from service.storage.responses.port import (
    Addition,
    ConversationRecord,
    MetadataChanged,
    ResponseStore,
    StoreFailed,
    StoreLimit,
    UnknownItem,
)
from service.storage.responses.store_thread import StoreThread

_log = logging.getLogger(__name__)

Result = TypeVar("Result")
Conversation = conversation_pb2.Conversation


class Conversations:
    """The conversations of callers. Each method raises StoreUnavailable; those with an id ConversationNotFound."""

    def __init__(self, store: StoreThread | None) -> None:
        """Without a store, none is stored."""
        self._store = store

    async def create(self, request: conversation_pb2.CreateConversationRequest) -> Conversation:
        """Store a new conversation. Raise StoringOff or StoreFull."""
        if self._store is None:
            raise StoringOff("items")
        check_items(request.items)
        conversation = Conversation(id=uuid.uuid4().hex, created=timestamp(time.time_ns()), metadata=request.metadata)
        owner = current_caller().id
        record, items = to_record(owner, conversation), to_item_records(request.items, conversation.id)
        await self._run(
            lambda store: store.conversations.create(record, items),
            lambda store, _: store.conversations.delete(owner, record.id),
        )
        return to_conversation(record)

    async def get(self, conversation_id: str) -> Conversation:
        """Return a conversation."""
        return to_conversation(await self._record(conversation_id))

    async def update(self, request: conversation_pb2.UpdateConversationRequest) -> Conversation:
        """Replace the metadata of a conversation. Raise StoreFull or ConversationChanged."""
        found = await self._record(request.id)
        if request.etag and request.etag != etag_of(found):
            raise ConversationChanged
        conversation = Conversation(id=found.id, created=timestamp(found.created_ns), metadata=request.metadata)
        record, known = to_record(found.owner, conversation), found.metadata if request.etag else None
        try:
            was_there = await self._run(lambda store: store.conversations.update(record, known))
        except MetadataChanged as error:
            raise ConversationChanged from error
        if not was_there:
            raise ConversationNotFound("id")
        return to_conversation(record)

    async def delete(self, conversation_id: str) -> None:
        """Delete a conversation with its items."""
        owner = current_caller().id
        if self._store is None or not await _translated(
            self._store.run_steps(lambda store: store.conversations.delete_steps(owner, conversation_id))
        ):
            raise ConversationNotFound("id")

    async def add(
        self, request: conversation_pb2.AddConversationItemsRequest
    ) -> list[stored_response_pb2.StoredInputItem]:
        """Add items to a conversation, and return them with their ids. Raise StoreFull."""
        check_items(request.items)
        owner = current_caller().id
        addition = Addition(request.id, to_item_records(request.items, uuid.uuid4().hex))
        if self._store is None or not await _translated(self._store.add(owner, addition)):
            raise ConversationNotFound("id")
        return to_stored_items(addition.items)

    async def items(
        self, request: conversation_pb2.ListConversationItemsRequest
    ) -> conversation_pb2.ListConversationItemsResponse:
        """Return a page of items. Raise InvalidRequest if it begins after none of them."""
        owner = current_caller().id
        size = page_size(request)
        after = request.after or request.page_token
        try:
            found = await self._run(
                lambda store: store.conversations.items(
                    owner, request.id, size + 1, after, descending=request.descending, max_bytes=MAX_PAGE_BYTES
                )
            )
        except UnknownItem as error:
            field = "after" if request.after else "page_token"
            raise InvalidRequest(field, "is not the id of an item of this conversation") from error
        if found is None:
            raise ConversationNotFound("id")
        end = num_on_page((each.num_bytes for each in found), size)
        items, has_more = to_stored_items(found[:end]), len(found) > end
        return conversation_pb2.ListConversationItemsResponse(
            items=items, has_more=has_more, next_page_token=items[-1].id if has_more else ""
        )

    async def item(self, request: conversation_pb2.GetConversationItemRequest) -> stored_response_pb2.StoredInputItem:
        """Return one item."""
        owner = current_caller().id
        await self.get(request.id)
        found = await self._run(lambda store: store.conversations.item(owner, request.id, request.item_id))
        if found is None:
            raise ConversationNotFound("item_id")
        return to_stored_items([found])[0]

    async def delete_item(self, request: conversation_pb2.DeleteConversationItemRequest) -> Conversation:
        """Delete one item, and return its conversation."""
        owner = current_caller().id
        conversation = await self.get(request.id)
        if not await self._run(lambda store: store.conversations.delete_item(owner, request.id, request.item_id)):
            raise ConversationNotFound("item_id")
        return conversation

    async def _record(self, conversation_id: str) -> ConversationRecord:
        """Return the record of a conversation."""
        owner = current_caller().id
        record = await self._run(lambda store: store.conversations.get(owner, conversation_id))
        if record is None:
            raise ConversationNotFound("id")
        return record

    async def _run(
        self, work: Callable[[ResponseStore], Result], undo: Callable[[ResponseStore, Result], object] | None = None
    ) -> Result:
        """Return what the store returns. Raise ConversationNotFound without a store."""
        if self._store is None:
            raise ConversationNotFound("id")
        return await _translated(self._store.run(work, undo))


async def _translated(work: Awaitable[Result]) -> Result:
    """Await a call of the store. Raise StoreUnavailable or StoreFull."""
    try:
        return await work
    except StoreLimit as limit:
        raise StoreFull.of(limit) from limit
    except StoreFailed as error:
        _log.warning("the store of conversations failed: %s", error)
        raise StoreUnavailable from error
