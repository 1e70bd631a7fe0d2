"""Handle one request that runs no model: models, endpoints, metadata."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from starlette.datastructures import QueryParams
from starlette.types import Receive, Scope, Send

from gateway.dialects.seam.error_response import ToErrorResponse
from gateway.dialects.seam.failure import Failure
from gateway.dialects.seam.http_request import HttpRequest
from gateway.http.body import ClientDisconnected
from gateway.http.headers import headers_of
from gateway.http.reply import send_error_response, send_json, to_failure
from gateway.routes.handling.authentication_first import ReplaceFailure, keep_failure
from gateway.routes.upstream.bodies import BodyReader, NoBody
from gateway.upstream.caller import Caller

_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})

Lookup: TypeAlias = Callable[[HttpRequest, Caller], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class LookupEndpoint:
    """An ASGI application over one function: `answer` returns the JSON body of status 200, or raises Failure.

    `replace_failure` returns the failure to report for a body that can't be received.
    """

    answer: Lookup
    error_response: ToErrorResponse
    bodies: BodyReader | NoBody
    replace_failure: ReplaceFailure = keep_failure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = headers_of(scope)
        caller = Caller.from_headers(scope["state"]["request_id"], headers)
        try:
            body = await self._body(scope, receive, caller)
            http_request = HttpRequest(
                body, headers, dict(scope["path_params"]), dict(QueryParams(scope["query_string"]))
            )
            answer = await self.answer(http_request, caller)
        except ClientDisconnected:
            raise
        except Exception as error:  # noqa: BLE001  unexpected errors are logged, and reported in the dialect's format
            failure = to_failure(error, caller.request_id)
            await send_error_response(send, self.error_response(failure), failure)
        else:
            await send_json(send, 200, answer)

    async def _body(self, scope: Scope, receive: Receive, caller: Caller) -> bytes:
        """Return the body, empty for methods without one. Raise Failure."""
        if scope["method"] not in _WITH_BODY:
            return b""
        try:
            return await self.bodies.read(scope, receive, caller)
        except Failure as failure:
            raise await self.replace_failure(failure, caller) from None
