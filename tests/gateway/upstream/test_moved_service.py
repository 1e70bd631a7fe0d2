"""A service whose host name resolves to a new address."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest
from grpc import aio
from sluice.v1 import chat_pb2_grpc

from tests.e2e.stack import free_ports
from tests.gateway import fakes
from tests.gateway.conftest import Gateway

_A, _HEADER = 1, struct.Struct("!6H")


class NameServer(asyncio.DatagramProtocol):
    """Answers every query for an address with `address`."""

    def __init__(self) -> None:
        self.address = "127.0.0.2"

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self._transport.get_extra_info("sockname")[1]
        return port

    def datagram_received(self, data: bytes, address: Any) -> None:
        number = _HEADER.unpack_from(data)[0]
        end = data.index(b"\0", _HEADER.size) + 5  # of the question: a name, its type, its class
        question, kind = data[_HEADER.size : end], struct.unpack_from("!H", data, end - 4)[0]
        packed = bytes(map(int, self.address.split(".")))
        answers = [b"\xc0\x0c" + struct.pack("!HHIH", _A, 1, 0, 4) + packed] if kind == _A else []
        header = _HEADER.pack(number, 0x8580, 1, len(answers), 0, 0)
        self._transport.sendto(header + question + b"".join(answers), address)


async def serve_at(address: str, service: fakes.FakeService) -> aio.Server:
    """Run the scripted service at `host:port`."""
    server = aio.server()
    chat_pb2_grpc.add_ChatServiceServicer_to_server(service, server)
    assert server.add_insecure_port(address)
    await server.start()
    return server


@pytest.fixture
async def names() -> AsyncIterator[NameServer]:
    """Run a name server."""
    transport, names = await asyncio.get_running_loop().create_datagram_endpoint(NameServer, ("127.0.0.1", 0))
    yield names
    transport.close()


@pytest.fixture
def port() -> int:
    """The port of the server."""
    return free_ports(1)[0]


@pytest.fixture
def flags(names: NameServer, port: int) -> list[str]:
    """Configure the service by its name only."""
    return ["--target", f"dns://127.0.0.1:{names.port}/service.test:{port}", "--request-deadline-s", "2"]


@pytest.mark.slow
async def test_service_host_name_is_resolved_again_after_a_failure(
    gateway: Gateway, names: NameServer, port: int
) -> None:
    """After the old address fails, the name is resolved again, and requests reach the new one."""
    first = await serve_at(f"127.0.0.2:{port}", gateway.service)
    await until_served(gateway)
    names.address = "127.0.0.3"
    successor = fakes.FakeService()
    second = await serve_at(f"127.0.0.3:{port}", successor)
    await first.stop(0)
    await until_served(gateway)
    assert successor.requests
    await second.stop(0)


async def until_served(gateway: Gateway) -> None:
    """Return when a request is answered; each has little time for a new connection."""
    while (await gateway.chat()).status_code != 200:  # noqa: ASYNC110 a channel has no such event
        await asyncio.sleep(0.05)
