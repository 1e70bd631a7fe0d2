"""Validate requests by the protovalidate rules in the contract's .proto files."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message

from service.calls.errors import InvalidMessage, Violation
from service.contract.parts.rules import Rules
from service.interceptors.policy import (
    API,
    Behaviour,
    Context,
    Continuation,
    Handler,
    Policy,
    behaviour_of,
    with_behaviour,
)


@dataclass(frozen=True, slots=True)
class UnparsableRequest:
    """The request message for bytes that can't be parsed.

    It reaches `Validation.apply`, which raises InvalidMessage. gRPC itself would end the call with the status UNKNOWN.
    """


class Validation(Policy):
    """The interceptor that raises InvalidMessage for requests that violate a rule or can't be parsed.

    The messages of a request stream are checked as the servicer reads them.
    """

    def __init__(self, request_types: Iterable[type[Message]]) -> None:
        """Compile the rules of `request_types` now, because that would delay the first call."""
        self._rules = Rules(request_types)

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> Handler | None:
        handler = await super().intercept_service(continuation, handler_call_details)
        if handler is None or not handler_call_details.method.startswith(API):
            return handler
        return with_behaviour(handler, behaviour_of(handler), _lenient(handler.request_deserializer))

    async def apply(self, method: str, request: Any, context: Context, proceed: Behaviour) -> Any:  # noqa: ARG002  the signature of all policies
        is_message = isinstance(request, Message | UnparsableRequest)
        return await proceed(self._checked(request) if is_message else self._each(request), context)

    def _checked(self, request: Message | UnparsableRequest) -> Message:
        """Return a valid request. Raise InvalidMessage."""
        if isinstance(request, UnparsableRequest):
            raise InvalidMessage([Violation("", "the bytes are not a valid request message of the method", "protobuf")])
        self._rules.check(request)
        return request

    async def _each(self, requests: AsyncIterable[Message | UnparsableRequest]) -> AsyncIterator[Message]:
        """Yield the valid requests of a stream. Raise InvalidMessage at the first other one."""
        async for request in requests:
            yield self._checked(request)


def _lenient(deserialize: Callable[[bytes], Any] | None) -> Callable[[bytes], Any]:
    """Return a deserializer that returns UnparsableRequest instead of raising DecodeError."""

    def read(data: bytes) -> Any:
        assert deserialize is not None  # noqa: S101  generated code has a deserializer for each method
        try:
            return deserialize(data)
        except DecodeError:
            return UnparsableRequest()

    return read
