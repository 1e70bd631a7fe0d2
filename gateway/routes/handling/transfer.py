"""Handle requests whose body is a form with a file, and answers that are the content of a file."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from starlette.datastructures import QueryParams
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.dialects.seam.error_response import ToErrorResponse
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest
from gateway.http.body import ClientDisconnected, body_parts
from gateway.http.headers import headers_of
from gateway.http.multipart import Multipart, PartBegin
from gateway.http.reply import send_error_response, send_json, to_failure
from gateway.routes.handling.authentication_first import authentication_first
from gateway.routes.handling.until_disconnect import run_until_disconnect
from gateway.routes.upstream.upstream import Upstream
from gateway.settings.config import Settings
from gateway.upstream.caller import Caller

Parts: TypeAlias = AsyncIterator[PartBegin | bytes]
Receiver: TypeAlias = Callable[[Upstream, Parts, Caller], Awaitable[bytes]]
Content: TypeAlias = Callable[[Upstream, HttpRequest, Caller], AsyncGenerator[bytes]]

_JSON_LINES: Final = b"application/jsonl"


@dataclass(frozen=True, slots=True)
class Upload:
    """A request with a form. `receive` reads its parts while they arrive, and returns the JSON of status 200."""

    receive: Receiver

    def endpoint(self, upstream: Upstream, error_response: ToErrorResponse, settings: Settings) -> ASGIApp:
        """The application."""

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            headers = headers_of(scope)
            caller = Caller.from_headers(scope["state"]["request_id"], headers)
            try:
                form = Multipart(headers)
                async with asyncio.timeout(settings.request_deadline_s):
                    answer = await self.receive(upstream, _parts(form, receive, settings.max_upload_bytes), caller)
            except ClientDisconnected:
                raise
            except Exception as error:  # noqa: BLE001  unexpected errors are logged, and reported in the dialect's format
                if isinstance(error, TimeoutError):
                    error = Failure(Reason.REQUEST_TIMEOUT, "the file has not arrived in time")
                failure = await authentication_first(upstream.client)(to_failure(error, caller.request_id), caller)
                await send_error_response(send, error_response(failure), failure)
            else:
                await send_json(send, 200, answer)

        return serve


@dataclass(frozen=True, slots=True)
class Download:
    """A request for the content of a file. `content` yields it in pieces; errors before the first one have a status.

    It ends when the client leaves.
    """

    content: Content

    def endpoint(self, upstream: Upstream, error_response: ToErrorResponse, settings: Settings) -> ASGIApp:  # noqa: ARG002
        """The application."""

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            headers = headers_of(scope)
            caller = Caller.from_headers(scope["state"]["request_id"], headers)
            request = HttpRequest(b"", headers, dict(scope["path_params"]), dict(QueryParams(scope["query_string"])))
            answer = _send_content(self.content(upstream, request, caller), caller.request_id, error_response, send)
            await run_until_disconnect(answer, receive, None)

        return serve


async def _send_content(
    pieces: AsyncGenerator[bytes], request_id: str, error_response: ToErrorResponse, send: Send
) -> None:
    """Send the pieces of a file; an error before the first one is an error response."""
    async with contextlib.aclosing(pieces):
        try:
            first = await anext(pieces, b"")
        except Exception as error:  # noqa: BLE001  as above
            failure = to_failure(error, request_id)
            await send_error_response(send, error_response(failure), failure)
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", _JSON_LINES)]})
        await send({"type": "http.response.body", "body": first, "more_body": True})
        async for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _parts(form: Multipart, receive: Receive, max_bytes: int) -> Parts:
    """Yield the parts of a form while they arrive. Raise Failure."""
    async for data in body_parts(receive, max_bytes):
        for part in form.feed(data):
            yield part
    form.end()
