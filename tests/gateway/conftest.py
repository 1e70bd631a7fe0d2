"""Fixtures: a scripted service, and the gateway over it on real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gateway.operators.drain import Drain
from gateway.server.app import build_app
from gateway.server.http_server import Server, build_server
from gateway.settings.config import Settings
from gateway.telemetry.telemetry import Telemetry
from gateway.upstream.client import ServiceClient
from process.settings.process_settings import read_settings
from tests.gateway import fakes
from tests.waiting import GUARD_S


@dataclass(frozen=True)
class Gateway:
    """A running gateway: a client of it, the service behind it, its settings and its spans."""

    http: httpx.AsyncClient
    service: fakes.FakeService
    settings: Settings
    spans: InMemorySpanExporter
    port: int
    server: Server
    drain: Drain

    async def chat(self, **fields: Any) -> httpx.Response:
        """Send a chat request whose other fields are valid."""
        return await self.http.post("/v1/chat/completions", json=chat_body(**fields))


def chat_body(**fields: Any) -> dict[str, Any]:
    """Return the body of a valid chat request, changed by `fields`."""
    return {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}


@functools.cache
def settings_of(*flags: str) -> Settings:
    """Return the gateway's settings, which take half of its start."""
    return read_settings(Settings, list(flags))


@pytest.fixture
def flags() -> list[str]:
    """Return the gateway's flags; a module may override them."""
    return []


@pytest.fixture
async def service() -> AsyncIterator[fakes.FakeService]:
    """Run a scripted service; its port is in `port`."""
    service = fakes.FakeService()
    server, service.port = await fakes.start(service)
    yield service
    await server.stop(None)


@pytest.fixture
async def gateway(service: fakes.FakeService, flags: list[str]) -> AsyncIterator[Gateway]:
    """Run the gateway in front of the scripted service."""
    async with running_gateway(service, flags) as gateway:
        yield gateway


@contextlib.asynccontextmanager
async def running_gateway(service: fakes.FakeService, flags: list[str]) -> AsyncIterator[Gateway]:
    """Run a gateway in front of a service."""
    settings = settings_of(*flags)
    if "--target" not in flags:
        settings = settings.model_copy(update={"target": f"127.0.0.1:{service.port}"})
    spans = InMemorySpanExporter()
    telemetry = Telemetry(None, [SimpleSpanProcessor(spans)])
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    async with ServiceClient.connect(settings, telemetry) as client:
        drain = Drain()
        server = build_server(settings, build_app(settings, client, telemetry, drain))
        server.config.load()
        server.lifespan = server.config.lifespan_class(server.config)
        await server.startup([listener])  # without the signal handlers and the naps of `serve`
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=GUARD_S, verify=False) as http:  # noqa: S501
            yield Gateway(http, service, settings, spans, port, server, drain)
        for each in server.servers:
            each.close()
        for task in list(server.server_state.tasks):  # of connections that a failed test left open
            task.cancel()
        await until(lambda: not server.server_state.tasks)
        for connection in list(server.server_state.connections):
            connection.shutdown()
        await until(lambda: not server.server_state.connections)
    telemetry.shutdown()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for an effect on the other side of a socket; the test's time limit ends a wait that never succeeds."""
    while not condition():  # noqa: ASYNC110  the other side has no event
        await asyncio.sleep(0.005)


async def soon(event: Awaitable[Any]) -> None:
    """Wait for an event that must occur, and fail within seconds if it does not."""
    async with asyncio.timeout(GUARD_S):
        await event
