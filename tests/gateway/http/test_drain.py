"""Draining of the gateway: which requests are served how long, and the errors of the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from sluice.v1 import chat_pb2

from gateway.operators.drain import GatewayPhase
from tests.gateway import fakes
from tests.gateway.conftest import Gateway, chat_body, until
from tests.waiting import GUARD_S


async def test_only_health_checks_fail_during_the_drain_delay(gateway: Gateway) -> None:
    """During the delay only health checks fail, and each answer closes its connection."""
    assert (await gateway.http.get("/healthz")).status_code == 200
    leaving = asyncio.create_task(gateway.drain.drain(60, 60))
    await until(lambda: gateway.drain.phase is GatewayPhase.LEAVING)
    health = await gateway.http.get("/healthz")
    assert (health.status_code, health.json()) == (503, {"status": "leaving"})
    ready = await gateway.http.get("/readyz")
    assert (ready.status_code, ready.json()["reason"]) == (503, "the server is shutting down")
    assert (await gateway.http.get("/health")).status_code == 503
    assert (await gateway.http.get("/livez")).status_code == 200  # who would end it must wait
    answer = await gateway.chat()
    assert (answer.status_code, answer.headers["connection"]) == (200, "close")
    leaving.cancel()


@pytest.mark.parametrize("stream", [False, True])
async def test_drain_completes_running_requests_and_rejects_new_ones(gateway: Gateway, *, stream: bool) -> None:
    """New requests get an error in their dialect with a retry delay; running requests are completed."""
    release = asyncio.Event()

    async def held(request: chat_pb2.ChatRequest) -> AsyncIterator[chat_pb2.StreamChatResponse]:
        await release.wait()
        for event in fakes.HELLO:
            yield event

    gateway.service.script = held
    asking = asyncio.create_task(gateway.chat(stream=stream))
    await until(gateway.service.begun.is_set)
    leaving = asyncio.create_task(gateway.drain.drain(0, 60))
    await until(lambda: gateway.drain.phase is GatewayPhase.DRAINING)
    for path, body, place in (
        ("/v1/chat/completions", chat_body(stream=stream), "error"),
        ("/serving-endpoints/m/invocations", chat_body(), None),
        ("/v2/models/m/generate", {"text_input": "hi"}, None),
    ):
        rejection = await gateway.http.post(path, json=body)
        assert (rejection.status_code, rejection.headers["retry-after"], rejection.headers["connection"]) == (
            503,
            "1",
            "close",
        )
        error = rejection.json()
        assert "the server is shutting down" in str(error[place] if place else error)
    assert not leaving.done()
    release.set()
    answer = await asking
    assert answer.status_code == 200
    await leaving
    assert not gateway.drain.num_running


async def test_request_longer_than_the_drain_timeout_gets_503(gateway: Gateway) -> None:
    """A request that exceeds the drain timeout gets 503."""
    gateway.service.script = fakes.play([None])
    asking = asyncio.create_task(gateway.chat())
    await until(gateway.service.begun.is_set)
    await gateway.drain.drain(0, 0.01)
    await gateway.server.end_requests()
    answer = await asking
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


async def test_new_connections_are_accepted_during_the_drain(gateway: Gateway) -> None:
    """New connections during the drain get an error response instead of a failed connection."""
    gateway.drain.begin()  # something runs
    leaving = asyncio.create_task(gateway.drain.drain(0, 60))
    await until(lambda: gateway.drain.phase is GatewayPhase.DRAINING)
    base_url = f"http://127.0.0.1:{gateway.port}"
    async with httpx.AsyncClient(base_url=base_url, verify=False, timeout=GUARD_S) as newcomer:  # noqa: S501
        assert (await newcomer.get("/v1/models")).status_code == 503
    gateway.drain.end()
    await leaving
