"""The operations of conversations in the OpenAI style."""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.message import Message

from gateway.dialects.openai.stored import conversation
from gateway.dialects.openai.stored.conversation import (
    ConversationAnswer,
    ConversationBody,
    DeletedConversationAnswer,
    ItemAnswer,
    NewConversationBody,
    NewItemsBody,
)
from gateway.dialects.openai_family.answers.stored import InputItemsAnswer
from gateway.dialects.seam.http_request import HttpRequest
from gateway.http.offload import offload
from gateway.routes.dialects.stored.stored_content import PAGE, call_service
from gateway.routes.handling.handler import Change, Lookup
from gateway.routes.surface.operation import Body, Operation, Parameter
from gateway.routes.upstream.upstream import Upstream
from gateway.upstream.caller import Caller

_ID: Final = Parameter(conversation.CONVERSATION, "path", "The id of a conversation.", "conv_0af3")
_ITEM: Final = Parameter(conversation.ITEM, "path", "The id of an item.", "msg_0af3_in0")
_PAGE: Final = (_ID, *PAGE)
_MESSAGE: Final = {"role": "user", "content": "Hello!"}
_NEW: Final = Body(NewConversationBody, {"items": [_MESSAGE], "metadata": {"topic": "greetings"}}, ConversationAnswer)
_CHANGED: Final = Body(ConversationBody, {"metadata": {"topic": "greetings"}}, ConversationAnswer)
_ADDED: Final = Body(NewItemsBody, {"items": [_MESSAGE]}, InputItemsAnswer)


async def _get(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:
    return conversation.to_conversation(await _call(upstream, conversation.to_get(http_request.path), caller))


async def _delete(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:
    request = conversation.to_delete(http_request.path)
    await _call(upstream, request, caller)
    return conversation.to_deleted(request)


async def _list(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:
    request = conversation.to_list_items(http_request.path, http_request.query)
    answer = await _call(upstream, request, caller)
    return await offload(answer.ByteSize(), lambda: conversation.to_page(answer))


async def _get_item(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:
    answer = await _call(upstream, conversation.to_get_item(http_request.path), caller)
    return await offload(answer.ByteSize(), lambda: conversation.to_item(answer.item))


async def _delete_item(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:
    return conversation.to_conversation(await _call(upstream, conversation.to_delete_item(http_request.path), caller))


async def _call(upstream: Upstream, request: Message, caller: Caller) -> Any:
    return await call_service(upstream, request, caller, conversation.caller_name)


def conversations(base: str) -> tuple[Operation, ...]:
    """Return the operations of conversations below a path."""
    every = f"{base}/conversations"
    one = f"{every}/{{{conversation.CONVERSATION}}}"
    item = f"{one}/items/{{{conversation.ITEM}}}"
    return (
        Operation("POST", every, "Creates a conversation.",
                  Change(conversation.parse_new, conversation.to_conversation), [_NEW]),
        Operation("GET", one, "Returns a conversation.", Lookup(_get), answer=ConversationAnswer, parameters=[_ID]),
        Operation("POST", one, "Replaces the metadata of a conversation.",
                  Change(conversation.parse_changed, conversation.to_conversation), [_CHANGED], parameters=[_ID]),
        Operation("DELETE", one, "Deletes a conversation.", Lookup(_delete), answer=DeletedConversationAnswer,
                  parameters=[_ID]),
        Operation("POST", f"{one}/items", "Adds items to a conversation.",
                  Change(conversation.parse_added, conversation.to_added), [_ADDED], parameters=[_ID]),
        Operation("GET", f"{one}/items", "Lists the items of a conversation.", Lookup(_list),
                  answer=InputItemsAnswer, parameters=_PAGE),
        Operation("GET", item, "Returns an item of a conversation.", Lookup(_get_item), answer=ItemAnswer,
                  parameters=[_ID, _ITEM]),
        Operation("DELETE", item, "Deletes an item of a conversation.", Lookup(_delete_item),
                  answer=ConversationAnswer, parameters=[_ID, _ITEM]),
    )  # fmt: skip
