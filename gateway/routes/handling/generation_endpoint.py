"""Handle one generation request: read the body, parse it, call the service, send the answer.

A caller that disconnects cancels the call at the service. A stream sends status 200 with its first event; an error
before it becomes an HTTP status, a later error one last event.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from google.protobuf.message import Message
from starlette.datastructures import QueryParams
from starlette.types import Receive, Scope, Send

from gateway.dialects.seam.encoder import Encoder, StreamFormat, ends_answer
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.request_id import FIELD, IDEMPOTENCY_KEY, set_request_id
from gateway.dialects.seam.sampling_defaults import MODELS_OWN, SamplingDefaults, set_defaults
from gateway.dialects.seam.translator import ParsedRequest, ServiceRequest, Translator
from gateway.http.body import ClientDisconnected
from gateway.http.cost import cost_comment
from gateway.http.event_id import HEADER, EventMarks
from gateway.http.headers import headers_of
from gateway.http.offload import offload
from gateway.http.reply import send_answer, send_error_response, to_failure
from gateway.http.sse import EventStream
from gateway.routes.handling.authentication_first import ReplaceFailure, keep_failure
from gateway.routes.handling.until_disconnect import run_until_disconnect
from gateway.routes.upstream.bodies import BodyReader, NoBody
from gateway.settings.config import Settings
from gateway.upstream.caller import Caller

_STALL_GRACE_S = 5.0  # time to send the end of a stream after its deadline


class GenerationClient(Protocol):
    """A ServiceClient, or a wrapper such as PreparedClient or ResumingClient."""

    async def call(self, request: Message, caller: Caller, affinity: str = "") -> Any:
        """Return the whole answer. Raise Failure."""

    def stream(
        self, request: Message, caller: Caller, affinity: str = ""
    ) -> contextlib.AbstractAsyncContextManager[AsyncIterator[Message]]:
        """Open the stream of events. Errors while reading become Failure on leaving the block."""


@dataclass(frozen=True, slots=True)
class GenerationEndpoint:
    """An ASGI application that answers one route in one dialect. `translator` creates a translator for each request.

    `replace_failure` returns the failure to report for an invalid body. `sampling_defaults` are the values of sampling
    parameters that a request omits; parameters without one have the model's.
    """

    translator: Callable[[], Translator]
    client: GenerationClient
    bodies: BodyReader | NoBody
    settings: Settings
    replace_failure: ReplaceFailure = keep_failure
    sampling_defaults: SamplingDefaults = field(default_factory=lambda: MODELS_OWN)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = headers_of(scope)
        caller = Caller.from_headers(scope["state"]["request_id"], headers)
        translator = self.translator()
        try:
            body = await self.bodies.read(scope, receive, caller)
            http_request = HttpRequest(
                body, headers, dict(scope["path_params"]), dict(QueryParams(scope["query_string"]))
            )
            parsed = await offload(len(body), partial(translator.parse, http_request))
            set_defaults(parsed.request, self.sampling_defaults)
            set_request_id(parsed.request, http_request.headers)
            is_sse = parsed.stream_format is StreamFormat.EVENTS  # only events have ids
            marks = EventMarks(http_request.headers if is_sse else {})
            if parsed.stream and marks.last is not None:
                marks.last.set_resume_options(parsed.request)
        except ClientDisconnected:
            raise
        except Exception as error:  # noqa: BLE001  unexpected errors are logged, and reported in the dialect's format
            failure = await self.replace_failure(to_failure(error, caller.request_id), caller)
            await send_error_response(send, translator.error_response(failure), failure)
            return
        if parsed.timeout_s is not None:
            caller = replace(caller, timeout_s=parsed.timeout_s)
        if parsed.stream:
            answer = self._stream(translator, parsed, caller, send, marks)
        else:
            answer = self._whole(translator, parsed, caller, send)
        await run_until_disconnect(answer, receive, self.settings.request_deadline_s + _STALL_GRACE_S)

    async def _whole(
        self, translator: Translator, parsed: ParsedRequest[ServiceRequest], caller: Caller, send: Send
    ) -> None:
        """Send the whole answer or its error."""

        async def fail(failure: Failure) -> None:
            renamed = failure.renamed(partial(_name, parsed))
            await send_error_response(send, translator.error_response(renamed), renamed)

        try:
            response = await self.client.call(parsed.request, caller, parsed.affinity)
            body = await offload(response.ByteSize(), partial(parsed.encoder.whole, response))
        except asyncio.CancelledError:
            await fail(to_failure(_shutdown_failure(), caller.request_id))
            raise
        except Exception as error:  # noqa: BLE001  as above
            await fail(to_failure(error, caller.request_id))
        else:
            await send_answer(send, body)

    async def _stream(
        self,
        translator: Translator,
        parsed: ParsedRequest[ServiceRequest],
        caller: Caller,
        send: Send,
        marks: EventMarks,
    ) -> None:
        """Send the answer as a stream; an error before the first event is an error response."""
        encoder = parsed.encoder
        interval_s = self.settings.keep_alive_interval_s
        stream = EventStream(send, ping=encoder.ping, interval_s=interval_s, stream_format=parsed.stream_format)
        event: Message | None = None
        is_sse = parsed.stream_format is StreamFormat.EVENTS
        final_bytes = cost_comment if is_sse and encoder.ping else bytes  # some clients accept no comments

        async def fail(failure: Failure) -> None:
            renamed = failure.renamed(lambda field: HEADER if field.startswith("resume.") else _name(parsed, field))
            if not stream.is_open:
                await send_error_response(send, translator.error_response(renamed), renamed)
            elif ends_answer(event):
                await stream.close(final_bytes())  # the answer is complete: its terminal event was sent
            else:
                await stream.close(encoder.error(renamed) + final_bytes())

        try:
            async with self.client.stream(parsed.request, caller, parsed.affinity) as events:
                event = await anext(events, None)
                if event is not None:
                    await stream.open(marks.put(await _encoded(encoder, event), event))
                    async with _in_background(stream.keep_alive()):
                        async for event in events:
                            await stream.write(marks.put(await _encoded(encoder, event), event))
            _check_end(event)
        except asyncio.CancelledError:
            await fail(to_failure(_shutdown_failure(), caller.request_id))
            raise
        except ClientDisconnected:
            raise
        except Exception as error:  # noqa: BLE001  as above
            await fail(to_failure(error, caller.request_id))
        else:
            await stream.close(final_bytes())


@contextlib.asynccontextmanager
async def _in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run `work` in a task until the block ends."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)  # `stream` raises the same write errors


async def _encoded(encoder: Encoder, event: Message) -> bytes:
    """Return the encoded event; an event with many logprobs is encoded off the event loop."""
    return await offload(event.ByteSize(), partial(encoder.chunk, event))


def _check_end(last: Message | None) -> None:
    """Raise Failure if a stream ended without its terminal event, even with status OK."""
    if not ends_answer(last):
        raise Failure(Reason.INTERNAL, "the answer ended unexpectedly")


def _name(parsed: ParsedRequest[ServiceRequest], field: str) -> str:
    """Return the caller's name of the contract's `field`."""
    return IDEMPOTENCY_KEY if field == FIELD else parsed.caller_name(field)


def _shutdown_failure() -> Failure:
    """Return the failure of requests that the shutdown cancels."""
    return Failure(Reason.UNAVAILABLE, "the server is shutting down", retry_after_s=1)
