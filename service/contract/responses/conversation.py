"""Conversations: messages to records and back, and what a response adds to its conversation."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from sluice.v1 import conversation_pb2, response_item_pb2, response_pb2, stored_response_pb2

from service.contract.parts.answer import timestamp
from service.contract.responses.stored_response import as_input, input_id
from service.storage.responses.port import Addition, ConversationRecord, ItemRecord

_GOOD_ENDS = frozenset({response_item_pb2.RESPONSE_STATUS_COMPLETED, response_item_pb2.RESPONSE_STATUS_INCOMPLETE})


def to_record(owner: str, conversation: conversation_pb2.Conversation) -> ConversationRecord:
    """Return the record of a conversation."""
    kept = conversation_pb2.Conversation(metadata=conversation.metadata)
    return ConversationRecord(
        owner, conversation.id, conversation.created.ToNanoseconds(), kept.SerializeToString(deterministic=True)
    )


def to_conversation(record: ConversationRecord) -> conversation_pb2.Conversation:
    """Return the conversation of a record."""
    kept = conversation_pb2.Conversation.FromString(record.metadata)
    return conversation_pb2.Conversation(
        id=record.id, created=timestamp(record.created_ns), metadata=kept.metadata, etag=etag_of(record)
    )


def etag_of(record: ConversationRecord) -> str:
    """Return the etag of a conversation: a digest of its metadata."""
    return hashlib.sha256(record.metadata).hexdigest()[:32]


def to_item_records(items: Iterable[response_item_pb2.InputItem], of: str) -> list[ItemRecord]:
    """Return records of new items, whose ids are derived from the unique id `of`."""
    return [ItemRecord(input_id(item, of, index), item.SerializeToString()) for index, item in enumerate(items)]


def to_stored_items(records: Iterable[ItemRecord]) -> list[stored_response_pb2.StoredInputItem]:
    """Return the items of records."""
    return [
        stored_response_pb2.StoredInputItem(id=each.id, item=response_item_pb2.InputItem.FromString(each.item))
        for each in records
    ]


def to_input(records: Sequence[ItemRecord]) -> list[response_item_pb2.InputItem]:
    """Return the items of records without their ids."""
    return [response_item_pb2.InputItem.FromString(each.item) for each in records]


def addition_of(request: response_pb2.CreateResponseRequest, response: response_item_pb2.Response) -> Addition | None:
    """Return what a response that has ended adds to its conversation; None if it adds nothing."""
    if not request.conversation or response.status not in _GOOD_ENDS:
        return None
    output = [ItemRecord(item.id, as_input(item).SerializeToString()) for item in response.output]
    return Addition(request.conversation, [*to_item_records(request.input, response.id), *output])
