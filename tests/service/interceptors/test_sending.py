"""Sending responses to clients that have disconnected."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from grpc import aio

from service.calls.call import Call, enter_call
from service.interceptors.sending import Sending

METHOD = "/sluice.v1.X/Do"


class Gone:
    """A call whose client has disconnected before gRPC has noticed."""

    async def send_initial_metadata(self, metadata: object) -> None:
        raise aio.InternalError("the operation failed")

    write = send_initial_metadata


async def whole(request: object, context: object) -> str:
    return "answer"


async def no_write(message: object) -> None:
    pass


async def stream(request: object, context: object) -> AsyncGenerator[str, None]:
    yield "answer"


@pytest.mark.parametrize(
    ("is_stream", "has_metadata"),
    [(False, True), (True, True), (True, False)],
    ids=["a whole answer's metadata", "a stream's metadata", "a stream's message"],
)
async def test_disconnect_before_the_answer_cancels_the_call(*, is_stream: bool, has_metadata: bool) -> None:
    """A disconnection is handled as a cancellation instead of being logged and answered as a fault of the service."""
    make: Any = grpc.unary_stream_rpc_method_handler if is_stream else grpc.unary_unary_rpc_method_handler

    async def continuation(details: object) -> Any:
        return make(stream if is_stream else whole, response_serializer=str.encode)

    handler: Any = await Sending(stall_timeout_s=60).intercept_service(continuation, SimpleNamespace(method=METHOD))
    if has_metadata:
        enter_call(Call(METHOD, "id"))
    with pytest.raises(asyncio.CancelledError):
        await handler.unary_stream(None, Gone())


async def test_the_limit_in_flight_is_that_of_the_time_of_sending() -> None:
    """A whole answer's metadata are sent at its end, when an overload of its beginning may be over."""
    limits = ["1;2;3;1"]
    sent: dict[str, str] = {}

    async def answer(request: object, context: object) -> str:
        limits.append("1;2;3;0")
        return "answer"

    async def continuation(details: object) -> Any:
        return grpc.unary_unary_rpc_method_handler(answer, response_serializer=str.encode)

    async def send(metadata: Any) -> None:
        sent.update(metadata)

    enter_call(Call(METHOD, "id", in_flight_limit=lambda: limits[-1]))
    handler: Any = await Sending(stall_timeout_s=60).intercept_service(continuation, SimpleNamespace(method=METHOD))
    context = SimpleNamespace(send_initial_metadata=send, write=no_write, set_trailing_metadata=lambda _: None)
    await handler.unary_stream(None, context)
    assert sent["x-sluice-limit"] == "1;2;3;0"
