"""A caller that disconnects cancels the service's call at any time and in any dialect."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator

import pytest
from sluice.v1 import chat_pb2

from tests.gateway import fakes
from tests.gateway.conftest import Gateway, chat_body, soon, until

SILENT = [None]
AFTER_ADMISSION = [fakes.STARTED, None]
AFTER_A_TOKEN = [fakes.STARTED, fakes.text("a"), None]


def http_request(**fields: object) -> bytes:
    """Return a chat request as bytes."""
    body = json.dumps(chat_body(**fields)).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n"
    )
    return head.format(len(body)).encode() + body


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("events", [SILENT, AFTER_ADMISSION, AFTER_A_TOKEN])
async def test_client_disconnect_cancels(
    gateway: Gateway,
    caplog: pytest.LogCaptureFixture,
    events: list[chat_pb2.StreamChatResponse | None],
    *,
    stream: bool,
) -> None:
    """Closing the connection cancels the call; the log and the metrics have 499, the client span CANCELLED."""
    caplog.set_level(logging.INFO)
    gateway.service.script = fakes.play(events)
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(http_request(stream=stream))
    await soon(gateway.service.begun.wait())
    if stream and events is AFTER_A_TOKEN:
        await reader.readuntil(b'"content":"a"')
    await until(lambda: gateway.service.num_sent == len(events) - 1)
    assert not gateway.service.cancelled.is_set()
    writer.close()
    await soon(gateway.service.cancelled.wait())
    await until(lambda: len(gateway.spans.get_finished_spans()) == 2)
    call, request = gateway.spans.get_finished_spans()
    assert call.attributes is not None
    assert call.attributes["rpc.response.status_code"] == "CANCELLED"
    assert request.attributes is not None
    assert request.attributes["http.response.status_code"] == 499
    assert [r.fields["status"] for r in caplog.records if r.message == "request"] == [499]  # type: ignore[attr-defined]


async def test_client_disconnect_while_sending_a_body(gateway: Gateway) -> None:
    """An incomplete body is not sent to the service, and the next request succeeds."""
    _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(http_request()[:-5])
    await writer.drain()
    writer.close()
    await until(lambda: len(gateway.spans.get_finished_spans()) == 1)
    assert gateway.service.requests == []
    assert (await gateway.chat()).status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("leaves", [False, True])
async def test_client_that_stops_reading_pauses_the_service(gateway: Gateway, *, leaves: bool) -> None:
    """A caller that stops reading pauses the service; it gets all events when it reads on, or cancels the call."""
    num_events, size = 5_000, 4096

    async def script(request: chat_pb2.ChatRequest) -> AsyncIterator[chat_pb2.StreamChatResponse]:
        yield fakes.STARTED
        for _ in range(num_events):
            yield fakes.text("x" * size)
        for event in fakes.ENDING:
            yield event

    gateway.service.script = script
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)  # else the system may take in the whole answer
    connection.connect(("127.0.0.1", gateway.port))
    reader, writer = await asyncio.open_connection(sock=connection, limit=1 << 16)
    writer.write(http_request(stream=True))
    await until(lambda: gateway.service.num_sent > 0)
    last = 0
    while gateway.service.num_sent != last:  # until it stands still
        last = gateway.service.num_sent
        await asyncio.sleep(0.5)
    assert 0 < last < num_events
    if leaves:
        writer.close()
        await soon(gateway.service.cancelled.wait())
        return
    num_bytes, tail = 0, b""
    while b"data: [DONE]" not in tail:
        piece = await reader.read(1 << 16)
        assert piece
        num_bytes += len(piece)
        tail = (tail + piece)[-100:]
    writer.close()
    assert num_bytes > num_events * size
    assert not gateway.service.cancelled.is_set()
