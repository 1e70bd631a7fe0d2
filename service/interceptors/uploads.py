"""Limit the large requests that are being received.

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
from service.calls.errors import TooManyUploads
from service.generation.caller import ANONYMOUS
from service.interceptors.policy import API, Context, Continuation, Handler, behaviour_of

_ADDRESS: Final = "x-sluice-upload"  # the client's address
_RETRY_AFTER_S: Final = 1.0


class Uploads(aio.ServerInterceptor):
    """Rejects a large request, before it is received, if its caller would have more than remain free for others.

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
        if handler is None or handler.request_streaming or not handler_call_details.method.startswith(API):
            return handler
        for name, value in handler_call_details.invocation_metadata or ():
            if name == _ADDRESS:
                return self._receiving(handler, str(value))
        return handler

    def _receiving(self, handler: Handler, address: str) -> Handler:
        """Return a handler of streams, which runs before the message is received, for a handler of one request."""
        proceed = behaviour_of(handler)

        async def behaviour(requests: AsyncIterator[Any], context: Context) -> None:
            caller = current_caller()
            with self._hold((caller.id, address if caller is ANONYMOUS else "")):
                request = await anext(aiter(requests), None)
            if request is None:  # gRPC has ended the call
                return
            response = await proceed(request, context)
            if response is not None:
                await context.write(response)

        make: Any = grpc.stream_stream_rpc_method_handler
        received: Handler = make(behaviour, handler.request_deserializer, handler.response_serializer)
        return received

    @contextlib.contextmanager
    def _hold(self, caller: tuple[str, str]) -> Iterator[None]:
        """Count an upload of a caller until the block ends. Raise TooManyUploads."""
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
