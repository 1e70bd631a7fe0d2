"""Stored responses in OpenAI's JSON: a response, a page of its input items, and the confirmation of its deletion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

import orjson
from sluice.v1 import content_pb2, conversation_pb2, response_item_pb2, stored_response_pb2

from gateway.dialects.openai_family.responses.known_tool import known_call, known_output
from gateway.dialects.openai_family.responses.part import image_answer
from gateway.dialects.openai_family.responses.response_id import to_id, written_id
from gateway.dialects.openai_family.responses.response_object import ResponseObject, to_call
from gateway.dialects.openai_family.responses.tool_kind import name_prefix
from gateway.dialects.seam.contract_limit import put
from gateway.dialects.seam.failure import Failure, Reason

Paged = TypeVar("Paged", stored_response_pb2.ListInputItemsRequest, conversation_pb2.ListConversationItemsRequest)
PARAMETER: Final = "response_id"  # of the path

_STREAM: Final = frozenset({"true", "1"})
_NO_STREAM: Final = frozenset({"false", "0"})
_ORDERS: Final = {"asc": False, "desc": True}
_ROLES: Final = {
    content_pb2.ROLE_SYSTEM: "system",
    content_pb2.ROLE_USER: "user",
    content_pb2.ROLE_ASSISTANT: "assistant",
}
_CALLER_NAMES: Final = {"id": PARAMETER, "page_size": "limit"}


def caller_name(field: str) -> str:
    """Return the caller's name of a field of a request for a stored response."""
    return _CALLER_NAMES.get(field, field)


def to_get(path: Mapping[str, str], query: Mapping[str, str]) -> stored_response_pb2.GetResponseRequest:
    """Return the contract's request for a stored response. Raise Failure."""
    if query.get("stream", "false").lower() not in _NO_STREAM:
        raise Failure.of_field("stream", "must be true or false")
    if "starting_after" in query:
        raise Failure.of_field("starting_after", "needs stream=true")
    return stored_response_pb2.GetResponseRequest(id=to_id(path[PARAMETER]))


def wants_stream(query: Mapping[str, str]) -> bool:
    """Return whether a request for a stored response asks for its events."""
    return query.get("stream", "").lower() in _STREAM


def to_follow(path: Mapping[str, str], query: Mapping[str, str]) -> stored_response_pb2.FollowResponseRequest:
    """Return the contract's request for the events of a response in the background. Raise Failure."""
    request = stored_response_pb2.FollowResponseRequest(id=to_id(path[PARAMETER]))
    if (after := query.get("starting_after")) is not None:
        put(request, "starting_after", _to_number("starting_after", after), "starting_after")
    return request


def to_cancel(path: Mapping[str, str]) -> stored_response_pb2.CancelResponseRequest:
    """Return the contract's request to cancel a response in the background."""
    return stored_response_pb2.CancelResponseRequest(id=to_id(path[PARAMETER]))


def to_delete(path: Mapping[str, str]) -> stored_response_pb2.DeleteResponseRequest:
    """Return the contract's request to delete a stored response."""
    return stored_response_pb2.DeleteResponseRequest(id=to_id(path[PARAMETER]))


def to_replay(path: Mapping[str, str]) -> stored_response_pb2.ReplayResponseRequest:
    """Return the contract's request to generate a stored response again."""
    return stored_response_pb2.ReplayResponseRequest(id=to_id(path[PARAMETER]))


def to_list(path: Mapping[str, str], query: Mapping[str, str]) -> stored_response_pb2.ListInputItemsRequest:
    """Return the contract's request for a page of input items, by default the last 20. Raise Failure."""
    return page_of(stored_response_pb2.ListInputItemsRequest(id=to_id(path[PARAMETER])), query)


def page_of(request: Paged, query: Mapping[str, str]) -> Paged:
    """Set the order, the start and the size of a page from the query; the default is the last 20. Raise Failure."""
    order, limit = query.get("order", "desc"), query.get("limit")
    if order not in _ORDERS:
        raise Failure.of_field("order", "must be asc or desc")
    request.after, request.descending = query.get("after", ""), _ORDERS[order]
    if limit is not None:
        put(request, "page_size", _to_number("limit", limit), "limit")
    return request


def _to_number(name: str, text: str) -> int:
    """Return a number of the query. Raise Failure."""
    if not (text.isascii() and text.isdigit()):
        raise Failure.of_field(name, "must be a whole number", Reason.INVALID_TYPE)
    return int(text[:20])  # a longer number is truncated; it still exceeds every limit


def to_response(
    answer: stored_response_pb2.GetResponseResponse | stored_response_pb2.CancelResponseResponse,
) -> bytes:
    """Return the body of `GET /v1/responses/{response_id}`, which equals the one returned at its creation."""
    return orjson.dumps(ResponseObject.from_client_data(answer.client_data).write(answer.response))


def to_deleted(request: stored_response_pb2.DeleteResponseRequest) -> bytes:
    """Return the body of `DELETE /v1/responses/{response_id}`."""
    return orjson.dumps({"id": written_id(request.id), "object": "response", "deleted": True})


def to_comparison(response_id: str, answer: stored_response_pb2.ReplayResponseResponse) -> bytes:
    """Return the body of `POST /v1/responses/{response_id}/replay`."""
    differences = list(answer.differences)
    return orjson.dumps(
        {
            "id": written_id(response_id),
            "object": "response.replay",
            "equal": not differences,
            "differences": differences,
            "receipt": answer.receipt,
        }
    )


def to_page(answer: stored_response_pb2.ListInputItemsResponse) -> bytes:
    """Return the body of `GET /v1/responses/{response_id}/input_items`."""
    return item_list(answer.items, has_more=answer.has_more)


def item_list(stored: Iterable[stored_response_pb2.StoredInputItem], *, has_more: bool) -> bytes:
    """Return a list of items."""
    items = [to_input_item(each) for each in stored]
    return orjson.dumps(
        {
            "object": "list",
            "data": items,
            "first_id": items[0]["id"] if items else None,
            "last_id": items[-1]["id"] if items else None,
            "has_more": has_more,
        }
    )


def to_input_item(stored: stored_response_pb2.StoredInputItem) -> dict[str, Any]:
    """Return an input item, which can be sent again unchanged."""
    item = stored.item
    kind = item.WhichOneof("item")
    shared = {"id": stored.id, "type": kind, "status": "completed"}
    match kind:
        case "message":
            return {**shared, "role": _ROLES[item.message.role], "content": _to_content(item.message)}
        case "function_call":
            call = item.function_call
            answer = shared | (known_call(call) or to_call(call))
            if call.namespace:
                answer |= {"name": call.name.removeprefix(name_prefix(call.namespace)), "namespace": call.namespace}
            return answer
        case "function_call_output":
            output = item.function_call_output
            if (known := known_output(output)) is not None:
                return shared | known
            kind = "custom_tool_call_output" if output.custom else "function_call_output"
            return shared | {"type": kind, "call_id": output.call_id, "output": output.output}
        case _:
            return {**shared, "summary": [], "content": [{"type": "reasoning_text", "text": item.reasoning.text}]}


def _to_content(message: response_item_pb2.InputMessage) -> list[dict[str, Any]]:
    if message.role == content_pb2.ROLE_ASSISTANT:
        return [{"type": "output_text", "text": part.text, "annotations": []} for part in message.content]
    return [
        {"type": "input_text", "text": part.text} if part.HasField("text") else image_answer(part)
        for part in message.content
    ]
