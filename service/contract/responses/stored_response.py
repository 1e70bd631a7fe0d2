"""Stored responses: a request and its response to a record, and records to items and pages of items."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from sluice.v1 import content_pb2, response_item_pb2, response_pb2, stored_response_pb2

from service.contract.responses.page import num_on_page, page_size
from service.contract.responses.response_item import call_prefix
from service.generation.errors import InvalidRequest
from service.storage.responses.port import Addition, ResponseRecord

_UNUSABLE: Final = {
    response_item_pb2.RESPONSE_STATUS_QUEUED: "queued",
    response_item_pb2.RESPONSE_STATUS_IN_PROGRESS: "in progress",
    response_item_pb2.RESPONSE_STATUS_FAILED: "failed",
    response_item_pb2.RESPONSE_STATUS_CANCELLED: "cancelled",
}
_PREFIXES: Final = {"message": "msg", "reasoning": "rs"}
_POSITION: Final = re.compile(r"_in([0-9]{1,9})\Z")  # in the id of an item of a request


def to_record(
    owner: str,
    request: response_pb2.CreateResponseRequest,
    response: response_item_pb2.Response,
    addition: Addition | None = None,
) -> ResponseRecord:
    """Return the record of a response, with what it adds to its conversation."""
    return ResponseRecord(
        owner=owner,
        id=response.id,
        created_ns=response.created.ToNanoseconds(),
        previous_id=request.previous_response_id,
        request=_kept(request),
        response=response.SerializeToString(),
        client_data=request.client_data,
        addition=addition,
    )


def is_of(record: ResponseRecord, request: response_pb2.CreateResponseRequest) -> bool:
    """Return whether a record is that of a request."""
    return record.request == _kept(request)


def _kept(request: response_pb2.CreateResponseRequest) -> bytes:
    """Return what is stored of a request."""
    kept = response_pb2.CreateResponseRequest()
    kept.CopyFrom(request)
    for name in ("client_data", "resume", "response_id"):
        kept.ClearField(name)
    return kept.SerializeToString(deterministic=True)


def with_response(
    record: ResponseRecord,
    response: response_item_pb2.Response,
    events: bytes = b"",
    addition: Addition | None = None,
) -> ResponseRecord:
    """Return the record of a response in the background in another state."""
    return replace(record, response=response.SerializeToString(), events=events, addition=addition)


def to_history(records: Sequence[ResponseRecord]) -> list[response_item_pb2.InputItem]:
    """Return the items of a chain of responses in order: the input and the output of each."""
    return [item for record in records for item in _items(record)]


def unusable_status(record: ResponseRecord) -> str:
    """Return the status of a response that can't be continued; empty if it can."""
    return _UNUSABLE.get(response_item_pb2.Response.FromString(record.response).status, "")


def _items(record: ResponseRecord) -> Iterator[response_item_pb2.InputItem]:
    """Yield the items of one response's input, and those of its output as input."""
    yield from response_pb2.CreateResponseRequest.FromString(record.request).input
    for item in response_item_pb2.Response.FromString(record.response).output:
        yield as_input(item)


def as_input(item: response_item_pb2.OutputItem) -> response_item_pb2.InputItem:
    """Return an item of an answer as one of a request."""
    match item.WhichOneof("item"):
        case "message":
            parts = [content_pb2.ContentPart(text=part.text) for part in item.message.content]
            message = response_item_pb2.InputMessage(role=content_pb2.ROLE_ASSISTANT, content=parts)
            return response_item_pb2.InputItem(message=message)
        case "function_call":
            return response_item_pb2.InputItem(function_call=item.function_call)
        case _:
            return response_item_pb2.InputItem(reasoning=item.reasoning)


def input_id(item: response_item_pb2.InputItem, of: str, index: int) -> str:
    """Return the id of an item, by its index in the request of the response or conversation `of`."""
    kind = item.WhichOneof("item") or "message"
    if kind in _PREFIXES:
        prefix = _PREFIXES[kind]
    elif kind == "function_call":
        prefix = call_prefix(item.function_call.known_tool, is_custom=item.function_call.custom)
    else:
        output = item.function_call_output
        prefix = f"{call_prefix(output.known_tool, is_custom=output.custom)}o"
    return f"{prefix}_{of}_in{index}"


def items_by_id(record: ResponseRecord, ids: Collection[str]) -> dict[str, response_item_pb2.InputItem]:
    """Return the items of these ids among those of a response's input and output, as items of a request.

    The time grows with the number of ids, not with that of the response's items.
    """
    given = response_pb2.CreateResponseRequest.FromString(record.request).input
    output = response_item_pb2.Response.FromString(record.response).output
    found = {item.id: as_input(item) for item in output if item.id in ids}
    for item_id in ids:
        index = _index(item_id)
        if index < len(given) and input_id(given[index], record.id, index) == item_id:
            found[item_id] = given[index]
    return found


def to_response(record: ResponseRecord) -> stored_response_pb2.GetResponseResponse:
    """Return the response of a record."""
    return stored_response_pb2.GetResponseResponse(
        response=response_item_pb2.Response.FromString(record.response), client_data=record.client_data
    )


def to_page(
    record: ResponseRecord, request: stored_response_pb2.ListInputItemsRequest
) -> stored_response_pb2.ListInputItemsResponse:
    """Return a page of the input items of a record. Raise InvalidRequest if the page begins after none of them."""
    given = response_pb2.CreateResponseRequest.FromString(record.request).input
    order = range(len(given))[::-1] if request.descending else range(len(given))
    if after := request.after or request.page_token:
        index = _index(after)
        if index >= len(given) or input_id(given[index], record.id, index) != after:
            field = "after" if request.after else "page_token"
            raise InvalidRequest(field, "is not the id of an input item of this response")
        order = order[order.index(index) + 1 :]
    size = page_size(request)
    end = num_on_page((given[index].ByteSize() for index in order[: size + 1]), size)
    items = [
        stored_response_pb2.StoredInputItem(id=input_id(given[index], record.id, index), item=given[index])
        for index in order[:end]
    ]
    has_more = end < len(order)
    return stored_response_pb2.ListInputItemsResponse(
        items=items, has_more=has_more, next_page_token=items[-1].id if has_more else ""
    )


def _index(item_id: str) -> int:
    """Return the index that the id of an item of a request names; one that no item has, if it names none."""
    position = _POSITION.search(item_id)
    return int(position[1]) if position is not None else sys.maxsize
