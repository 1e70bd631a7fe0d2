"""The requests of one stream, without a server: idle streams, and the order of responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

import pytest
from google.rpc import status_pb2
from sluice.inference import inference_pb2

from service.generation.errors import DeadlineExceeded
from service.servicers.inference.stream import InferenceStream

Request = inference_pb2.ModelInferRequest
Response = inference_pb2.ModelInferResponse


async def echo(request: Request) -> AsyncGenerator[Response, None]:
    yield Response(id=request.id)


def stream_of(*, max_idle_s: float = 600.0) -> InferenceStream:
    return InferenceStream(
        echo, lambda _: status_pb2.Status(), asyncio.Event().wait, ends_with_error=False, max_idle_s=max_idle_s
    )


async def endless(*requests: Request) -> AsyncIterator[Request]:
    """Yield these requests, and then none, without an end."""
    for request in requests:
        yield request
    await asyncio.Event().wait()


async def test_idle_stream_ends_after_its_answers() -> None:
    """A stream whose client sends nothing doesn't occupy the server for ever."""
    responses = stream_of(max_idle_s=0.01).responses(endless(Request(id="a")))
    assert (await anext(responses)).infer_response.id == "a"
    with pytest.raises(DeadlineExceeded, match="no request"):
        await anext(responses)


async def test_more_requests_than_slots_are_answered() -> None:
    """Requests above the number that run at a time are answered later."""

    async def many() -> AsyncIterator[Request]:
        for index in range(200):
            yield Request(id=str(index))

    found = [each.infer_response.id async for each in stream_of().responses(many())]
    assert sorted(found, key=int) == [str(index) for index in range(200)]
