"""The project's own Python client has one effect per call, however often gRPC sends it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from sluice_client import AsyncClient, Client, methods, request
from sluice_client.v1 import response_event_pb2, response_pb2

from tests.clients.stub_server import served

QUESTION = "Who are you?"
Requests = list[response_pb2.CreateResponseRequest]
Call = Callable[[str, response_pb2.CreateResponseRequest], None]


@contextmanager
def unavailable_at_first() -> Iterator[tuple[str, Requests]]:
    """Serve responses, of which every call's first attempt fails; yield the address and the received requests."""
    received: Requests = []

    def create(message: Any, context: grpc.ServicerContext) -> Any:
        received.append(message)
        if len(received) % 2:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the connection was lost")
        return response_pb2.CreateResponseResponse()

    def stream(message: Any, context: grpc.ServicerContext) -> Any:
        create(message, context)
        yield response_event_pb2.StreamResponseResponse()

    with served({methods.CREATE_RESPONSE: create, methods.STREAM_RESPONSE: stream}) as target:
        yield target, received


def call_whole(target: str, message: response_pb2.CreateResponseRequest) -> None:
    with Client(target) as client:
        client.call(methods.CREATE_RESPONSE, message)


def call_stream(target: str, message: response_pb2.CreateResponseRequest) -> None:
    with Client(target) as client:
        list(client.stream(methods.STREAM_RESPONSE, message))


def call_async_whole(target: str, message: response_pb2.CreateResponseRequest) -> None:
    async def call() -> None:
        async with AsyncClient(target) as client:
            await client.call(methods.CREATE_RESPONSE, message)

    asyncio.run(call())


def call_async_stream(target: str, message: response_pb2.CreateResponseRequest) -> None:
    async def call() -> None:
        async with AsyncClient(target) as client:
            [_ async for _ in client.stream(methods.STREAM_RESPONSE, message)]

    asyncio.run(call())


CALLS = pytest.mark.parametrize("call", [call_whole, call_stream, call_async_whole, call_async_stream])
EFFECTS: dict[str, dict[str, Any]] = {
    "stored": {"store": True},
    "in a conversation": {"conversation": "conv"},
    "in the background": {"store": True, "background": True},
}


def ids(message: response_pb2.CreateResponseRequest) -> tuple[str, str]:
    """Return the ids by which the server recognizes a repeated request."""
    return message.serving.request_id, message.response_id


@CALLS
@pytest.mark.parametrize("effect", EFFECTS)
def test_repeated_attempts_have_one_id(call: Call, effect: str) -> None:
    """All attempts of a call have one id, and each call has another, although it sends the same message."""
    message = request.response_request(QUESTION, {"model": "m", **EFFECTS[effect]})
    unchanged = message.SerializeToString(deterministic=True)
    with unavailable_at_first() as (target, received):
        call(target, message)
        call(target, message)
    found = [ids(each) for each in received]
    assert found[0] == found[1] != found[2] == found[3]
    assert bool(received[0].serving.request_id) is (effect == "in the background")
    assert bool(received[0].response_id) is (effect != "in the background")
    assert message.SerializeToString(deterministic=True) == unchanged


@CALLS
def test_other_requests_are_sent_unchanged(call: Call) -> None:
    """An id of the caller's is kept, and a request without effects or of a resumed stream gets none."""
    own = request.response_request(QUESTION, {"model": "m", "store": True, "background": True})
    own.serving.request_id = "invoice-17"
    named = request.response_request(QUESTION, {"model": "m", "store": True})
    named.response_id = "0" * 32
    resumed = request.response_request(QUESTION, {"model": "m", "store": True})
    resumed.resume.position = b"3"
    for message in (own, named, resumed, request.response_request(QUESTION, {"model": "m"})):
        with unavailable_at_first() as (target, received):
            call(target, message)
        assert received == [message, message]


def test_options_of_responses_get_an_id() -> None:
    """`respond` and `stream_response` send one id in all attempts, too."""
    with unavailable_at_first() as (target, received), Client(target, model="m") as client:
        client.respond(QUESTION, store=True)
        list(client.stream_response(QUESTION, store=True, background=True))
    assert ids(received[0]) == ids(received[1]) != ids(received[2]) == ids(received[3])
    assert received[0].response_id
    assert received[2].serving.request_id
