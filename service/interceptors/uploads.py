"""Receive the message of each call: limit the large ones that are being received, and reject calls without a message.

Envoy buffers requests until they are complete, except large ones over HTTP/1.1, which it marks with their client's
address. Slow clients may let such a request last a minute, and each may take the memory of the largest message. Runs on
the event loop's thread only.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import grpc
from grpc import aio

from service.calls.call import current_caller
from service.calls.errors import InvalidMessage, TooManyUploads, Violation
from service.generation.caller import ANONYMOUS
from service.interceptors.policy import API, Context, Continuation, Handler, behaviour_of

_ADDRESS: Final = "x-sluice-upload"  # the client's address
_RETRY_AFTER_S: Final = 1.0
_NO_MESSAGE: Final = "the call ended before its message was complete"


class Uploads(aio.ServerInterceptor):
    """Rejects a large request, before it is received, if its caller would have more than remain free for others.

    A call that ends before its message is complete is rejected, too: gRPC would leave it open until the client is gone.
    One caller may use half of `max_uploads`, two callers a third each. Callers are distinguished by their key, or by
    their address without a key. The interceptor belongs inside of `Auth`, which sets the caller.
    """

    def __init__(self, max_uploads: int) -> None:
        self._num_free = max_uploads
        self._num_held: Counter[tuple[str, str]] = Counter()  # by key id and, without a key, address

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> Handler | None:
        handler = await continuation(handler_call_details)
        if handler is None or handler.request_streaming:
            return handler
        is_api = handler_call_details.method.startswith(API)
        addresses = [str(value) for name, value in handler_call_details.invocation_metadata or () if name == _ADDRESS]
        return self._receiving(handler, addresses[0] if is_api and addresses else None, is_api=is_api)

    def _receiving(self, handler: Handler, address: str | None, *, is_api: bool) -> Handler:
        """Return a handler of streams, which runs before the message is received, for a handler of one request.

        `address` is None unless the request is large. Errors outside of the API have no details.
        """
        proceed = behaviour_of(handler)

        async def behaviour(requests: AsyncIterator[Any], context: Context) -> Any:
            with self._hold(address) if address is not None else contextlib.nullcontext():
                request = await anext(aiter(requests), None)
            if request is None and is_api:
                raise InvalidMessage([Violation("", _NO_MESSAGE, "message")])
            if request is None:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, _NO_MESSAGE)
            return await proceed(request, context)

        streams = handler.response_streaming
        make: Any = grpc.stream_stream_rpc_method_handler if streams else grpc.stream_unary_rpc_method_handler
        received: Handler = make(behaviour, handler.request_deserializer, handler.response_serializer)
        return received

    @contextlib.contextmanager
    def _hold(self, address: str) -> Iterator[None]:
        """Count an upload of the current caller until the block ends. Raise TooManyUploads."""
        current = current_caller()
        caller = (current.id, address if current is ANONYMOUS else "")
        limit = (self._num_free + self._num_held[caller]) // 2
        if self._num_held[caller] >= limit:
            raise TooManyUploads(limit, _RETRY_AFTER_S)
        self._num_free -= 1
        self._num_held[caller] += 1
        try:
            yield
        finally:
            self._num_free += 1
            self._num_held[caller] -= 1
            if not self._num_held[caller]:
                del self._num_held[caller]
