"""The operations of stored responses in the OpenAI style."""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.message import Message

from gateway.dialects.openai.response import OpenAIFollowTranslator
from gateway.dialects.openai_family.answers.answer import ResponseAnswer
from gateway.dialects.openai_family.answers.stored import DeletedResponseAnswer, InputItemsAnswer, ReplayAnswer
from gateway.dialects.openai_family.responses import stored
from gateway.dialects.seam.http_request import HttpRequest
from gateway.http.offload import offload
from gateway.routes.dialects.stored.stored_content import PAGE, call_service
from gateway.routes.handling.handler import Action, Lookup, LookupOrStream
from gateway.routes.surface.operation import Operation, Parameter
from gateway.routes.upstream.upstream import Upstream
from gateway.upstream.caller import Caller

_ID: Final = Parameter(stored.PARAMETER, "path", "The id of a stored response.", "resp_0af3")
_EVENTS: Final = (
    _ID,
    Parameter("stream", "query", "`true` for the events of a response in the background.", "false",
              schema={"type": "boolean"}),
    Parameter("starting_after", "query", "The number of the last event that the client has; needs `stream=true`.", "7",
              schema={"type": "integer", "minimum": 0}),
)  # fmt: skip
_PAGE: Final = (_ID, *PAGE)


async def _get(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:
    answer = await _call(upstream, stored.to_get(http_request.path, http_request.query), caller)
    return await offload(answer.ByteSize(), lambda: stored.to_response(answer))


async def _cancel(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:
    answer = await _call(upstream, stored.to_cancel(http_request.path), caller)
    return await offload(answer.ByteSize(), lambda: stored.to_response(answer))


async def _delete(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:
    request = stored.to_delete(http_request.path)
    await _call(upstream, request, caller)
    return stored.to_deleted(request)


async def _replay(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:
    request = stored.to_replay(http_request.path)
    return stored.to_comparison(request.id, await _call(upstream, request, caller))


async def _list(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:
    answer = await _call(upstream, stored.to_list(http_request.path, http_request.query), caller)
    return await offload(answer.ByteSize(), lambda: stored.to_page(answer))


async def _call(upstream: Upstream, request: Message, caller: Caller) -> Any:
    return await call_service(upstream, request, caller, stored.caller_name)


def stored_responses(base: str) -> tuple[Operation, ...]:
    """Return the operations of stored responses below a path."""
    one = f"{base}/responses/{{{stored.PARAMETER}}}"
    return (
        Operation("GET", one, "Returns a stored response, or the events of one in the background.",
                  LookupOrStream(Lookup(_get), OpenAIFollowTranslator, stored.wants_stream),
                  answer=ResponseAnswer, parameters=_EVENTS),
        Operation("POST", f"{one}/cancel", "Stops a response in the background.", Action(_cancel),
                  answer=ResponseAnswer, parameters=[_ID]),
        Operation("POST", f"{one}/replay", "Generates a stored response with a receipt again, and compares both.",
                  Action(_replay), answer=ReplayAnswer, parameters=[_ID]),
        Operation("DELETE", one, "Deletes a stored response.", Lookup(_delete), answer=DeletedResponseAnswer,
                  parameters=[_ID]),
        Operation("GET", f"{one}/input_items", "Lists the input items of a stored response.", Lookup(_list),
                  answer=InputItemsAnswer, parameters=_PAGE),
    )  # fmt: skip
