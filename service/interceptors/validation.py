"""Validate requests by the protovalidate rules in the contract's .proto files."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

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

_BATCH: Final = "sluice.v1.BatchService/CreateBatch"


@dataclass(frozen=True, slots=True)
class UnparsableRequest:
    """The request message for bytes that can't be parsed.

    It reaches `Validation.apply`, which raises InvalidMessage. gRPC itself would end the call with the status UNKNOWN.
    """


class Validation(Policy):
    """The interceptor that raises InvalidMessage for requests that violate a rule or can't be parsed.

    The messages of a request stream are checked as the servicer reads them. The requests in those of a batch have
    errors of their own: the servicer checks them.
    """

    def __init__(self, rules: Rules) -> None:
        """`rules` are those of all types of requests."""
        self._rules = rules

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> Handler | None:
        handler = await super().intercept_service(continuation, handler_call_details)
        if handler is None or not handler_call_details.method.startswith(API):
            return handler
        return with_behaviour(handler, behaviour_of(handler), _lenient(handler.request_deserializer))

    async def apply(self, method: str, request: Any, context: Context, proceed: Behaviour) -> Any:
        check = _parsed if method == _BATCH else self._checked
        is_message = isinstance(request, Message | UnparsableRequest)
        return await proceed(check(request) if is_message else _each(request, check), context)

    def _checked(self, request: Message | UnparsableRequest) -> Message:
        """Return a valid request. Raise InvalidMessage."""
        message = _parsed(request)
        self._rules.check(message)
        return message


def _parsed(request: Message | UnparsableRequest) -> Message:
    """Return a request that could be parsed. Raise InvalidMessage."""
    if isinstance(request, UnparsableRequest):
        raise InvalidMessage([Violation("", "the bytes are not a valid request message of the method", "protobuf")])
    return request


async def _each(
    requests: AsyncIterable[Message | UnparsableRequest], check: Callable[[Message | UnparsableRequest], Message]
) -> AsyncIterator[Message]:
    """Yield the requests of a stream that `check` returns."""
    async for request in requests:
        yield check(request)


def _lenient(deserialize: Callable[[bytes], Any] | None) -> Callable[[bytes], Any]:
    """Return a deserializer that returns UnparsableRequest instead of raising DecodeError."""

    def read(data: bytes) -> Any:
        assert deserialize is not None  # noqa: S101  generated code has a deserializer for each method
        try:
            return deserialize(data)
        except DecodeError:
            return UnparsableRequest()

    return read
