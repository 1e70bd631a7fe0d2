"""Send responses from one coroutine, which closes the servicer's generator on every exit path.

If gRPC consumed an async generator itself, a call cancelled during a write would leave the generator suspended until it
is garbage collected, and its generation running. This is the innermost interceptor; it runs on the event loop's thread
only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from contextlib import aclosing
from typing import Any

import grpc
from grpc import aio

from service.calls.call import current_call
from service.calls.errors import ReaderStalled
from service.interceptors.policy import API, Behaviour, Context, Continuation, Handler, behaviour_of, with_behaviour
from service.interceptors.unread_responses import UnreadResponses


class Sending(aio.ServerInterceptor):
    """Turns each handler into a coroutine that writes its responses; streaming servicers must be async generators.

    A call whose client reads nothing for `stall_timeout_s` seconds is ended with ReaderStalled, and its resources are
    released. gRPC would hold a single response as long as its client is connected.
    """

    def __init__(self, stall_timeout_s: float) -> None:
        self._stall_timeout_s = stall_timeout_s
        self._unread = UnreadResponses()

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> Handler | None:
        handler = await continuation(handler_call_details)
        if handler is None or not handler_call_details.method.startswith(API):
            return handler
        serve = behaviour_of(handler)
        if handler.response_streaming:
            return with_behaviour(handler, _streaming(serve, self._stall_timeout_s))
        make: Any = (
            grpc.stream_stream_rpc_method_handler if handler.request_streaming else grpc.unary_stream_rpc_method_handler
        )
        single = _single(serve, handler.response_serializer, self._stall_timeout_s, self._unread)
        written: Handler = make(single, handler.request_deserializer)
        return written


def _single(serve: Behaviour, serialize: Any, stall_timeout_s: float, unread: UnreadResponses) -> Behaviour:
    """Return a behaviour that writes the only message of a call, as a stream does: gRPC sends the same either way.

    The message is serialized first: it may take several times as much memory as its bytes.
    """

    async def write(request: Any, context: Context) -> None:
        response = serialize(await serve(request, context))
        await _send_metadata(context)
        began = time.monotonic()
        try:
            async with asyncio.timeout(stall_timeout_s) as timeout:
                with unread.hold(len(response), timeout):
                    await _send(context.write(response))
        except TimeoutError:
            raise ReaderStalled(time.monotonic() - began) from None
        _set_trailers(context)

    return write


def _streaming(serve: Any, stall_timeout_s: float) -> Behaviour:
    """Return a streaming behaviour that writes each message within the time limit."""

    async def write(request: Any, context: Context) -> None:
        async with aclosing(serve(request, context)) as messages:
            is_first = True
            async for message in messages:
                if is_first:
                    await _send_metadata(context)
                    is_first = False
                try:
                    async with asyncio.timeout(stall_timeout_s):
                        await _send(context.write(message))
                except TimeoutError:
                    raise ReaderStalled(stall_timeout_s) from None
        _set_trailers(context)

    return write


async def _send_metadata(context: Context) -> None:
    """Send the call's initial metadata directly before its first message.

    Rejected calls thus have trailers only, in which proxies look for statuses to retry.
    """
    if (call := current_call()) is not None and not call.has_sent_metadata:
        await _send(context.send_initial_metadata(call.metadata))


def _set_trailers(context: Context) -> None:
    if (call := current_call()) is not None and (trailers := call.trailers):
        context.set_trailing_metadata(trailers)


async def _send(sending: Awaitable[None]) -> None:
    """Wait until a message is sent. Raise CancelledError if the client disconnects meanwhile."""
    try:
        await sending
    except aio.InternalError as error:  # gRPC cancels the task a moment later
        raise asyncio.CancelledError from error
