"""The cost of an answer, on request: a header of a whole answer, a comment at the end of a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator

import grpc
import pytest
from sluice.v1 import chat_pb2

from tests.gateway import fakes
from tests.gateway.conftest import Gateway, chat_body

COST = "compute_s=0.001000, block_s=0.002000, cached_tokens=16"
REQUEST_HEADER = {"x-sluice-cost": "true"}


@pytest.fixture(autouse=True)
def costly(service: fakes.FakeService) -> None:
    """Make the service report the cost if the request asks for it."""
    service.cost = COST


async def test_unstreamed_answer_has_a_cost_header(gateway: Gateway) -> None:
    """A whole answer has the header on request only."""
    answer = await gateway.http.post("/v1/chat/completions", json=chat_body(), headers=REQUEST_HEADER)
    assert (answer.status_code, answer.headers.get("x-sluice-cost")) == (200, COST)
    answer = await gateway.http.post("/v1/chat/completions", json=chat_body())
    assert (answer.status_code, answer.headers.get("x-sluice-cost")) == (200, None)


async def test_stream_ends_with_a_comment(gateway: Gateway) -> None:
    """On request the cost follows the last event as a comment, which SSE readers ignore."""
    for headers, last in ((REQUEST_HEADER, f": x-sluice-cost: {COST}"), ({}, "data: [DONE]")):
        answer = await gateway.http.post("/v1/chat/completions", json=chat_body(stream=True), headers=headers)
        assert answer.status_code == 200
        assert answer.text.strip().splitlines()[-1] == last


async def test_stream_with_ping_events_has_its_cost(gateway: Gateway) -> None:
    """Anthropic's streams have events as pings, and the cost as a comment."""
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], "stream": True}
    answer = await gateway.http.post("/v1/messages", json=body, headers=REQUEST_HEADER)
    assert answer.text.strip().splitlines()[-1] == f": x-sluice-cost: {COST}"


async def test_failed_answer_has_its_cost(gateway: Gateway) -> None:
    """The cost of a failed answer follows the event that ends its stream."""

    async def break_off(request: chat_pb2.ChatRequest) -> AsyncIterator[chat_pb2.StreamChatResponse]:
        yield fakes.STARTED
        yield fakes.text("a")
        raise fakes.Status(grpc.StatusCode.RESOURCE_EXHAUSTED, "too much")

    gateway.service.script = break_off
    answer = await gateway.http.post("/v1/chat/completions", json=chat_body(stream=True), headers=REQUEST_HEADER)
    assert answer.text.strip().splitlines()[-1] == f": x-sluice-cost: {COST}"


async def test_streams_for_clients_that_accept_no_comments_have_no_cost(gateway: Gateway) -> None:
    """Streams for Databricks' SDKs, which fail on comments, have no cost; whole answers have it."""
    path = "/serving-endpoints/m/invocations"
    body = {"messages": chat_body()["messages"]}
    answer = await gateway.http.post(path, json=body | {"stream": True}, headers=REQUEST_HEADER)
    assert (answer.status_code, "x-sluice-cost" in answer.text) == (200, False), answer.text
    answer = await gateway.http.post(path, json=body | {"stream": False}, headers=REQUEST_HEADER)
    assert answer.headers["x-sluice-cost"] == COST
