"""References of a request to items of stored responses: each is replaced by the item itself."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from sluice.v1 import response_item_pb2, response_pb2

from service.contract.responses.stored_response import items_by_id
from service.generation.errors import InvalidRequest
from service.storage.responses.port import ResponseRecord

_ID: Final = re.compile(r"[a-z]+_(?P<response>.+)_(?:in)?[0-9]+")
_MAX_RESPONSES: Final = 1024
_IN_CONVERSATION: Final = "an item of a conversation can't be a reference; add the item itself"
_UNKNOWN: Final = "no item with this id is stored in a response; send the item itself"

ReadRecord = Callable[[str], Awaitable[ResponseRecord | None]]


def has_references(request: response_pb2.CreateResponseRequest) -> bool:
    """Return whether items of the request's input are references."""
    return any(item.HasField("reference") for item in request.input)


def check_items(items: Iterable[response_item_pb2.InputItem]) -> None:
    """Raise InvalidRequest if one of the items that a conversation shall have is a reference."""
    for index, item in enumerate(items):
        if item.HasField("reference"):
            raise InvalidRequest(f"items[{index}].reference", _IN_CONVERSATION)


async def with_items(
    request: response_pb2.CreateResponseRequest, read: ReadRecord, max_bytes: int
) -> response_pb2.CreateResponseRequest:
    """Return the request with the items that its references name; `read` returns a stored response by its id.

    Raise InvalidRequest for an unknown item, and for items of too many responses or of more than `max_bytes`.
    """
    resolved = response_pb2.CreateResponseRequest()
    resolved.CopyFrom(request)
    num_bytes = 0
    for response_id, indices in _indices_by_response(request).items():
        record = await read(response_id) if response_id else None
        ids = {request.input[index].reference.id for index in indices}
        items = {} if record is None else items_by_id(record, ids)
        for index in indices:
            found = items.get(request.input[index].reference.id)
            if found is None:
                raise InvalidRequest(_field(index), _UNKNOWN)
            num_bytes += found.ByteSize()
            if num_bytes > max_bytes:
                raise InvalidRequest(_field(index), f"the items have more than {max_bytes} bytes, which is the limit")
            resolved.input[index].CopyFrom(found)
    return resolved


def _indices_by_response(request: response_pb2.CreateResponseRequest) -> dict[str, list[int]]:
    """Return the indices of references by the response that has the items; its id is empty if it can't exist.

    Only one response is in memory at a time then. Raise InvalidRequest for too many responses.
    """
    indices: dict[str, list[int]] = {}
    for index, item in enumerate(request.input):
        if item.HasField("reference"):
            match = _ID.fullmatch(item.reference.id)
            indices.setdefault(match["response"] if match else "", []).append(index)
            if len(indices) > _MAX_RESPONSES:
                text = f"refers to more than {_MAX_RESPONSES} responses, which is the limit"
                raise InvalidRequest(_field(index), text)
    return indices


def _field(index: int) -> str:
    return f"input[{index}].reference.id"
