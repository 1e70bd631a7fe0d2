"""Stored responses of the current caller: store one, continue one, read and delete them.

An answer never depends on the store: if a response can't be stored, it is returned with the reason.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Final, TypeVar

from sluice.v1 import response_item_pb2, response_pb2, stored_response_pb2

from service.answering.errors import ConversationNotFound, ResponseNotFound, StoreUnavailable, StoringOff
from service.answering.idempotent_calls import undivided
from service.answering.item_references import has_references, with_items
from service.calls.call import current_call, current_caller
from service.contract.parts.resume import to_resume
from service.contract.responses.conversation import addition_of, to_input, to_item_records
from service.contract.responses.stored_response import (
    is_of,
    to_history,
    to_page,
    to_record,
    to_response,
    unusable_status,
)
from service.generation.errors import InvalidRequest
from service.observability.store_metrics import StoreMetrics
from service.storage.responses.port import (
    Addition,
    ChainTooLong,
    ItemRecord,
    ResponseRecord,
    ResponseStore,
    StoreFailed,
    StoreLimit,
)
from service.storage.responses.store_thread import StoreThread

_MAX_ITEMS: Final = 4096  # of a conversation, as in the contract
_MAX_CHAIN: Final = 1024  # responses
_CONVERSATION: Final = "conversation"
_UNTIL: Final = "conversation_until"
_PREVIOUS: Final = "previous_response_id"
_OTHER: Final = "is the id of another request"

_log = logging.getLogger(__name__)

Result = TypeVar("Result")


class StoredResponses:
    """The stored responses of callers."""

    def __init__(self, store: StoreThread | None, max_chain_bytes: int, metrics: StoreMetrics) -> None:
        """Without a store, none is stored. `max_chain_bytes` limits the responses that a request continues."""
        self._metrics = metrics
        self._store = store
        self._max_chain_bytes = max_chain_bytes

    def check(self, request: response_pb2.CreateResponseRequest) -> None:
        """Raise StoringOff if the request needs the store, but the settings don't allow it."""
        if self._store is None and (request.store or request.conversation):
            raise StoringOff("store" if request.store else _CONVERSATION)

    async def check_id(self, request: response_pb2.CreateResponseRequest) -> None:
        """Raise InvalidRequest if the id of a request is that of another one whose response is stored."""
        if self._store is None or not request.serving.request_id or request.HasField("resume"):
            return
        owner = current_caller().id
        try:
            found = await self._store.run(lambda store: store.get(owner, request.response_id))
        except StoreFailed:
            return  # the answer doesn't depend on the store, which rejects the response later
        if found is not None and not is_of(found, undivided(request)):
            raise InvalidRequest("serving.request_id", _OTHER)

    async def with_items(self, request: response_pb2.CreateResponseRequest) -> response_pb2.CreateResponseRequest:
        """Return the request with the items that its references name.

        Raise StoringOff, InvalidRequest for an unknown item, or StoreUnavailable.
        """
        if not has_references(request):
            return request
        if self._store is None:
            index = next(i for i, item in enumerate(request.input) if item.HasField("reference"))
            raise StoringOff(f"input[{index}].reference.id")
        owner = current_caller().id

        async def read(response_id: str) -> ResponseRecord | None:
            return await self._read(lambda store: store.get(owner, response_id))

        return await with_items(request, read, self._max_chain_bytes)

    async def history(self, request: response_pb2.CreateResponseRequest) -> Sequence[response_item_pb2.InputItem]:
        """Return the items that precede those of a request.

        Raise StoringOff, ResponseNotFound for an unknown response, ConversationNotFound, InvalidRequest for too long a
        conversation, or StoreUnavailable.
        """
        if request.conversation:
            return await self._conversation(request)
        previous_id = request.previous_response_id
        if not previous_id:
            return ()
        if self._store is None:
            raise StoringOff(_PREVIOUS)
        owner = current_caller().id
        try:
            records = await self._read(lambda store: store.chain(owner, previous_id, _MAX_CHAIN, self._max_chain_bytes))
        except ChainTooLong as error:
            raise InvalidRequest(_PREVIOUS, str(error)) from error
        if records is None:
            raise ResponseNotFound(_PREVIOUS)
        if unusable := next((status for each in records if (status := unusable_status(each))), ""):
            raise InvalidRequest(_PREVIOUS, f"this response, or one that it continues, is {unusable}")
        items = to_history(records)
        if (num_items := len(items) + len(request.input)) > _MAX_ITEMS:
            raise InvalidRequest(_PREVIOUS, f"the conversation has {num_items} items; the limit is {_MAX_ITEMS}")
        return items

    async def keep(self, request: response_pb2.CreateResponseRequest, response: response_item_pb2.Response) -> None:
        """Store a response that has ended, and add it to its conversation. Note in the response if that fails."""
        owner, addition = current_caller().id, addition_of(request, response)
        if self._store is None or not (request.store or addition):
            return
        try:
            if request.store:
                record = to_record(owner, undivided(request), response, addition)
                await self._store.put(record, is_repeatable=bool(request.response_id))
            elif addition is not None:
                await self._store.add(owner, addition, is_repeatable=bool(request.response_id))
        except StoreLimit as limit:
            self._metrics.on_rejected()
            reason = str(limit)
        except StoreFailed as error:
            _log.warning("a response could not be stored: %s", error)
            self._metrics.on_failed()
            reason = str(StoreUnavailable())
        else:
            self._metrics.on_stored()
            return
        response.stored, response.store_error = False, reason  # neither is it added to its conversation
        if (call := current_call()) is not None:
            call.add_log_fields({"store_error": reason})

    async def answered(self, response_id: str) -> tuple[response_pb2.CreateResponseRequest, response_item_pb2.Response]:
        """Return the request of a stored response, as of its time, and the response.

        Raise ResponseNotFound, StoreUnavailable, or ConversationNotFound if its items are no longer in its
        conversation, so that those before them are unknown.
        """
        record = await self._record(response_id)
        request = response_pb2.CreateResponseRequest.FromString(record.request)
        response = response_item_pb2.Response.FromString(record.response)
        addition = addition_of(request, response)
        if addition is not None and not request.HasField(_UNTIL):
            request.conversation_until = await self._item_before(addition)
        return request, response

    async def get(self, response_id: str) -> stored_response_pb2.GetResponseResponse:
        """Return a stored response. Raise ResponseNotFound or StoreUnavailable."""
        return to_response(await self._record(response_id))

    async def input_items(
        self, request: stored_response_pb2.ListInputItemsRequest
    ) -> stored_response_pb2.ListInputItemsResponse:
        """Return a page of a stored response's input. Raise ResponseNotFound, InvalidRequest or StoreUnavailable."""
        return to_page(await self._record(request.id), request)

    async def delete(self, response_id: str) -> None:
        """Delete a stored response. Raise ResponseNotFound or StoreUnavailable."""
        owner = current_caller().id
        if not await self._read(lambda store: store.delete(owner, response_id)):
            raise ResponseNotFound("id")

    async def last_item(self, conversation_id: str) -> str:
        """Return the id of the last item of a conversation, empty if it has none. Raise the errors of `history`."""
        owner = current_caller().id
        found = await self._read(lambda store: store.conversations.items(owner, conversation_id, 1, descending=True))
        if found is None:
            raise ConversationNotFound(_CONVERSATION)
        return found[0].id if found else ""

    async def _item_before(self, addition: Addition) -> str:
        """Return the id of the item that precedes items of a conversation; empty if none does."""
        owner, conversation_id = current_caller().id, addition.conversation_id
        first = addition.items[0].id

        def read(store: ResponseStore) -> Sequence[ItemRecord] | None:
            items = store.conversations
            is_there = items.item(owner, conversation_id, first) is not None
            return items.items(owner, conversation_id, 1, first, descending=True) if is_there else None

        found = await self._read(read)
        if found is None:
            raise ConversationNotFound(_CONVERSATION)
        return found[0].id if found else ""

    async def _conversation(self, request: response_pb2.CreateResponseRequest) -> Sequence[response_item_pb2.InputItem]:
        """Return the items of a request's conversation that precede its own."""
        if self._store is None:
            raise StoringOff(_CONVERSATION)
        owner, conversation_id = current_caller().id, request.conversation
        most = _MAX_ITEMS - len(request.input)
        found = await self._read(
            lambda store: store.conversations.items(owner, conversation_id, most + 1, max_bytes=self._max_chain_bytes)
        )
        if found is None:
            raise ConversationNotFound(_CONVERSATION)
        if request.HasField(_UNTIL):
            ids = ["", *(each.id for each in found)]
            if request.conversation_until not in ids:
                raise InvalidRequest(_UNTIL, "is not the id of an item of the conversation")
            found = found[: ids.index(request.conversation_until)]
        elif answer_id := _answer_id(request):  # it may have been complete, and added, when its first call broke
            found = _before_own(request, answer_id, found)
        if len(found) > most:
            raise InvalidRequest(
                _CONVERSATION, f"the conversation has more than {_MAX_ITEMS} items, which is the limit"
            )
        if sum(each.num_bytes for each in found) > self._max_chain_bytes:
            text = f"the conversation has more than {self._max_chain_bytes} bytes, which is the limit"
            raise InvalidRequest(_CONVERSATION, text)
        return to_input(found)

    async def _record(self, response_id: str) -> ResponseRecord:
        owner = current_caller().id
        record = await self._read(lambda store: store.get(owner, response_id))
        if record is None:
            raise ResponseNotFound("id")
        return record

    async def _read(self, work: Callable[[ResponseStore], Result]) -> Result | None:
        """Return what the store returns; None without a store. Raise StoreUnavailable."""
        if self._store is None:
            return None
        with _available():
            return await self._store.run(work)


def _answer_id(request: response_pb2.CreateResponseRequest) -> str:
    """Return the id of an answer that may have been generated before; empty for a new one."""
    resumed = to_resume(request)
    return request.response_id if resumed is None else resumed.identity.id


def _before_own(
    request: response_pb2.CreateResponseRequest, answer_id: str, items: Sequence[ItemRecord]
) -> Sequence[ItemRecord]:
    """Return the items of a conversation that precede those of an answer. Raise InvalidRequest for another's id."""
    own = to_item_records(request.input, answer_id)
    before = list(takewhile(lambda each: each.id != own[0].id, items))
    added = {each.id: each for each in items[len(before) :]}
    if any(added.get(each.id, each) != each for each in own):
        field = "serving.request_id" if request.serving.request_id else "response_id"
        raise InvalidRequest(field, _OTHER)
    return before


@contextmanager
def _available() -> Iterator[None]:
    """Raise StoreUnavailable if the store fails."""
    try:
        yield
    except StoreFailed as error:
        _log.warning("the store of responses failed: %s", error)
        raise StoreUnavailable from error
