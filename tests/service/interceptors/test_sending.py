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
        return make(stream if is_stream else whole)

    handler: Any = await Sending(stall_timeout_s=60).intercept_service(continuation, SimpleNamespace(method=METHOD))
    if has_metadata:
        enter_call(Call(METHOD, "id"))
    with pytest.raises(asyncio.CancelledError):
        await (handler.unary_stream if is_stream else handler.unary_unary)(None, Gone())
