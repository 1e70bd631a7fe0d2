"""Conversations in OpenAI's JSON: bodies of requests, and the objects of answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec
import orjson
from sluice.v1 import conversation_pb2, response_item_pb2, stored_response_pb2

from gateway.dialects.openai_family.responses.item import ResponseItem, item_name, to_items
from gateway.dialects.openai_family.responses.response_id import to_conversation_id, written_conversation_id
from gateway.dialects.openai_family.responses.stored import item_list, page_of, to_input_item
from gateway.dialects.seam.caller_name import dotted
from gateway.dialects.seam.contract_limit import check_length
from gateway.dialects.seam.failure import Failure
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.json_body import decode

CONVERSATION: Final = "conversation_id"  # parameters of the path
ITEM: Final = "item_id"

_INPUT: Final = "input"  # the field of items in a request for a response
_ITEMS: Final = "items"
_CALLER_NAMES: Final = {"id": CONVERSATION, "page_size": "limit"}

Path: TypeAlias = Mapping[str, str]


class NewConversationBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `POST /v1/conversations`."""

    items: list[ResponseItem] | None = None
    metadata: dict[str, str] | None = None


class ConversationBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `POST /v1/conversations/{conversation_id}`: the new metadata."""

    metadata: dict[str, str] | None


class NewItemsBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `POST /v1/conversations/{conversation_id}/items`."""

    items: list[ResponseItem]


class ConversationAnswer(msgspec.Struct):
    """A conversation."""

    id: str
    object: str
    created_at: int
    metadata: dict[str, str]


class DeletedConversationAnswer(msgspec.Struct):
    """The confirmation that a conversation was deleted."""

    id: str
    object: str
    deleted: bool


class ItemAnswer(msgspec.Struct):
    """An item of a conversation; its other fields depend on its type."""

    id: str
    type: str
    status: str


_NEW: Final = msgspec.json.Decoder(NewConversationBody)
_CHANGED: Final = msgspec.json.Decoder(ConversationBody)
_ADDED: Final = msgspec.json.Decoder(NewItemsBody)


@dataclass(frozen=True, slots=True)
class ParsedConversation:
    """A parsed request, with the items that its body has."""

    request: Any
    items: list[ResponseItem]

    def caller_name(self, field: str) -> str:
        """Return the caller's name of the contract's `field`: `items[0].message.role` → `items.0.role`."""
        path = dotted(field)
        if path.startswith(f"{_ITEMS}."):
            name = item_name(self.items, path.replace(_ITEMS, _INPUT, 1))
            return path if name is None else name.replace(_INPUT, _ITEMS, 1)
        return caller_name(path)


def caller_name(field: str) -> str:
    """Return the caller's name of a field of a request without a body."""
    return _CALLER_NAMES.get(field, field)


def parse_new(http_request: HttpRequest) -> ParsedConversation:
    """Parse a request to create a conversation. Raise Failure."""
    body = decode(http_request.body, _NEW)
    check_length(conversation_pb2.CreateConversationRequest, "metadata", body.metadata or (), "metadata")
    check_length(conversation_pb2.CreateConversationRequest, _ITEMS, body.items or (), _ITEMS)
    given = body.items or []
    request = conversation_pb2.CreateConversationRequest(items=_items(given), metadata=body.metadata)
    return ParsedConversation(request, given)


def parse_changed(http_request: HttpRequest) -> ParsedConversation:
    """Parse a request to replace the metadata of a conversation. Raise Failure."""
    body = decode(http_request.body, _CHANGED)
    check_length(conversation_pb2.UpdateConversationRequest, "metadata", body.metadata or (), "metadata")
    request = conversation_pb2.UpdateConversationRequest(id=_id(http_request.path), metadata=body.metadata)
    return ParsedConversation(request, [])


def parse_added(http_request: HttpRequest) -> ParsedConversation:
    """Parse a request to add items to a conversation. Raise Failure."""
    body = decode(http_request.body, _ADDED)
    check_length(conversation_pb2.AddConversationItemsRequest, _ITEMS, body.items, _ITEMS)
    request = conversation_pb2.AddConversationItemsRequest(id=_id(http_request.path), items=_items(body.items))
    return ParsedConversation(request, body.items)


def to_get(path: Path) -> conversation_pb2.GetConversationRequest:
    """Return the contract's request for a conversation."""
    return conversation_pb2.GetConversationRequest(id=_id(path))


def to_delete(path: Path) -> conversation_pb2.DeleteConversationRequest:
    """Return the contract's request to delete a conversation."""
    return conversation_pb2.DeleteConversationRequest(id=_id(path))


def to_list_items(path: Path, query: Mapping[str, str]) -> conversation_pb2.ListConversationItemsRequest:
    """Return the contract's request for a page of items. Raise Failure."""
    return page_of(conversation_pb2.ListConversationItemsRequest(id=_id(path)), query)


def to_get_item(path: Path) -> conversation_pb2.GetConversationItemRequest:
    """Return the contract's request for one item."""
    return conversation_pb2.GetConversationItemRequest(id=_id(path), item_id=path[ITEM])


def to_delete_item(path: Path) -> conversation_pb2.DeleteConversationItemRequest:
    """Return the contract's request to delete one item."""
    return conversation_pb2.DeleteConversationItemRequest(id=_id(path), item_id=path[ITEM])


def to_conversation(answer: Any) -> bytes:
    """Return the body of an answer with a conversation."""
    conversation: conversation_pb2.Conversation = answer.conversation
    return orjson.dumps(
        {
            "id": written_conversation_id(conversation.id),
            "object": "conversation",
            "created_at": conversation.created.seconds,
            "metadata": dict(conversation.metadata),
        }
    )


def to_deleted(request: conversation_pb2.DeleteConversationRequest) -> bytes:
    """Return the body of an answer to a deletion."""
    written = written_conversation_id(request.id)
    return orjson.dumps({"id": written, "object": "conversation.deleted", "deleted": True})


def to_added(answer: conversation_pb2.AddConversationItemsResponse) -> bytes:
    """Return the body of an answer with added items."""
    return item_list(answer.items, has_more=False)


def to_page(answer: conversation_pb2.ListConversationItemsResponse) -> bytes:
    """Return the body of an answer with a page of items."""
    return item_list(answer.items, has_more=answer.has_more)


def to_item(item: stored_response_pb2.StoredInputItem) -> bytes:
    """Return the body of an answer with one item."""
    return orjson.dumps(to_input_item(item))


def _id(path: Path) -> str:
    return to_conversation_id(path[CONVERSATION])


def _items(given: list[ResponseItem]) -> list[response_item_pb2.InputItem]:
    """Return the contract's items. Raise Failure with the names of `items`."""
    try:
        return to_items(given)
    except Failure as failure:
        raise failure.renamed(lambda field: field.replace(_INPUT, _ITEMS, 1)) from None
