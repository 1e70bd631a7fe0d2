"""The base class of interceptors: a coroutine around another, for all four kinds of handlers.

Policies run on the event loop's thread only. They require `Sending` as the innermost interceptor, which turns every
handler into a coroutine `(request, context)` that writes the responses itself.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import grpc
from grpc import aio

from service.calls.call import DEADLINE_SLACK_S

Context: TypeAlias = aio.ServicerContext[Any, Any]
Behaviour: TypeAlias = Callable[[Any, Context], Awaitable[Any]]
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # generic in its stubs only
Continuation: TypeAlias = "Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]]"

API = ("/sluice.", "/inference.", "/vllm.")  # without health checks and reflection


class Policy(aio.ServerInterceptor, ABC):
    """A policy for every call of the API, except health checks and reflection."""

    @abstractmethod
    async def apply(self, method: str, request: Any, context: Context, proceed: Behaviour) -> Any:
        """Serve a call of `method` ("package.Service/Method") by `await proceed(request, context)`, or raise."""

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> Handler | None:
        handler = await continuation(handler_call_details)
        if handler is None or not handler_call_details.method.startswith(API):
            return handler
        method = handler_call_details.method.removeprefix("/")
        proceed = behaviour_of(handler)

        async def behaviour(request: Any, context: Context) -> Any:
            return await self.apply(method, request, context, proceed)

        return with_behaviour(handler, behaviour)


def behaviour_of(handler: Handler) -> Any:
    """Return the function that serves calls, whatever the kind of the handler."""
    return handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream


def with_behaviour(
    handler: Handler, behaviour: Behaviour, deserialize: Callable[[bytes], Any] | None = None
) -> Handler:
    """Return a handler of the same kind and messages that calls the coroutine function `behaviour`.

    `deserialize` replaces the handler's own deserializer of requests.
    """
    make: Any = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }[handler.request_streaming, handler.response_streaming]
    wrapped: Handler = make(behaviour, deserialize or handler.request_deserializer, handler.response_serializer)
    return wrapped


def outcome(context: Context, error: BaseException | None) -> grpc.StatusCode:
    """Return the status of a call, for policies outside of `Errors`."""
    if error is None:
        return grpc.StatusCode.OK
    if isinstance(error, aio.AbortError):
        return context.code()
    if isinstance(error, asyncio.CancelledError):
        remaining: float | None = context.time_remaining()
        is_late = remaining is not None and remaining < DEADLINE_SLACK_S
        return grpc.StatusCode.DEADLINE_EXCEEDED if is_late else grpc.StatusCode.CANCELLED
    return grpc.StatusCode.UNKNOWN
