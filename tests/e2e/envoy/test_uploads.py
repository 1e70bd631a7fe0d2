"""Requests that are not sent completely: however many they are, they fill no memory, and others are served."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from sluice.v1.chat_pb2 import ChatRequest
from sluice.v1.content_pb2 import ContentPart, Message

from runner.proxy.envoy_config import connection_manager
from tests.e2e.connections import CHAT, connections, health
from tests.e2e.envoy.http2 import send_paused_calls
from tests.e2e.envoy_process import EnvoyProcess
from tests.e2e.guarded import Guarded
from tests.e2e.stack import Stack
from tests.waiting import GUARD_S

MIB = 1 << 20
NUM_UPLOADS, NUM_BYTES = 48, 14 * MIB  # below the limits of a request's size
HEAP_BYTES = 512 * MIB  # less than all of them

CHAT_PATH, GRPC_CHAT = "/v1/chat/completions", "/sluice.v1.ChatService/Chat"
REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
JSON, WEB, GRPC = (f"content-type: application/{each}\r\n" for each in ("json", "grpc-web+proto", "grpc"))
LENGTH, CHUNKED = f"content-length: {NUM_BYTES + 1}\r\n", "transfer-encoding: chunked\r\n"
HEADS = {
    "REST": (CHAT_PATH, JSON + LENGTH),
    "REST in chunks": (CHAT_PATH, JSON + CHUNKED),
    "gRPC-web": (GRPC_CHAT, WEB + LENGTH),
    "gRPC-web in chunks": (GRPC_CHAT, WEB + CHUNKED),
    "gRPC": (GRPC_CHAT, GRPC + LENGTH),
    "gRPC in chunks": (GRPC_CHAT, GRPC + CHUNKED),
    "reflection": (REFLECTION, GRPC + LENGTH),
    "health": ("/healthz", JSON + LENGTH),
    "gRPC health": ("/grpc.health.v1.Health/Check", GRPC + CHUNKED),
    "metrics": ("/metrics", JSON + LENGTH),
}


def with_small_heap(config: dict[str, Any]) -> None:
    """Limit Envoy's heap, and let incomplete requests wait as long as the test."""
    connection_manager(config)["request_timeout"] = "0s"
    config["overload_manager"]["resource_monitors"][1]["typed_config"]["max_heap_size_bytes"] = HEAP_BYTES


@contextlib.contextmanager
def paused_uploads(envoy: EnvoyProcess, path: str, headers: str) -> Iterator[None]:
    """Send requests on separate connections, as far as they are read, and keep them open."""
    head = f"POST {path} HTTP/1.1\r\nhost: a\r\n{headers}\r\n".encode()
    body = b"\0" + NUM_BYTES.to_bytes(4, "big") + bytes(NUM_BYTES - 5)  # also the begin of a message of gRPC
    if CHUNKED in headers:
        head += b"%x\r\n" % (NUM_BYTES + 1)

    def send(connection: socket.socket) -> None:
        connection.settimeout(2)
        with contextlib.suppress(TimeoutError, ConnectionError):
            connection.sendall(head + body)

    with contextlib.ExitStack() as stack, ThreadPoolExecutor(NUM_UPLOADS) as pool:
        address = ("127.0.0.1", envoy.port)
        opened = [stack.enter_context(socket.create_connection(address)) for _ in range(NUM_UPLOADS)]
        list(pool.map(send, opened))
        yield


def serves_others(envoy: EnvoyProcess, **headers: str) -> None:
    """Check that health, a small request and a large one of another address are answered by gateway and service."""
    transport = httpx.HTTPTransport(local_address="127.0.0.2")
    with httpx.Client(base_url=envoy.url, transport=transport, headers=headers, timeout=GUARD_S) as client:
        for path in ("/livez", "/healthz", "/readyz"):
            assert client.get(path).status_code == 200
        assert client.post(CHAT_PATH, json=CHAT).status_code == 200
        too_long = CHAT | {"messages": [{"role": "user", "content": "a " * MIB}]}
        assert client.post(CHAT_PATH, json=too_long).status_code == 400
    assert health(envoy) == "OK"


@pytest.mark.parametrize("kind", HEADS)
def test_unauthenticated_uploads_do_not_fill_memory(guarded: Guarded, kind: str) -> None:
    """48 paused requests of 14 MiB without a key leave the service as it was, where keys are required."""
    ports = guarded.stack.ports
    with (
        EnvoyProcess(ports["gateway"], ports["service"], with_small_heap) as envoy,
        paused_uploads(envoy, *HEADS[kind]),
    ):
        serves_others(envoy, authorization=f"Bearer {guarded.keys['team']}")


@pytest.mark.parametrize("kind", ["REST", "REST in chunks", "gRPC-web"])
def test_uploads_of_one_address_do_not_fill_memory(stack: Stack, kind: str) -> None:
    """48 paused requests of 14 MiB leave the service as it was for other addresses, where no keys are required."""
    ports = stack.ports
    with (
        EnvoyProcess(ports["gateway"], ports["service"], with_small_heap) as envoy,
        paused_uploads(envoy, *HEADS[kind]),
    ):
        serves_others(envoy)


def test_uploads_over_http2_do_not_fill_memory(stack: Stack) -> None:
    """Envoy resets the largest of 48 paused calls over HTTP/2 before they fill its heap, and serves others."""
    with EnvoyProcess(stack.ports["gateway"], stack.ports["service"], with_small_heap) as envoy:

        def has_reset() -> bool:
            return envoy.stat("http.front_door.downstream_rq_rx_reset") > 0

        with connections(envoy, 1) as (connection,):
            send_paused_calls(connection, NUM_UPLOADS, GRPC_CHAT, NUM_BYTES, has_reset)
            serves_others(envoy)
        assert has_reset()


@pytest.mark.parametrize("head", [f"POST {GRPC_CHAT} HTTP/1.1\r\n{GRPC}", f"POST {CHAT_PATH} HTTP/1.1\r\n{JSON}"])
def test_one_keys_uploads_leave_slots_for_other_keys(guarded: Guarded, head: str) -> None:
    """While one key has as many large requests in progress as it likes, those of another key are served."""
    ports, (other, flooder) = guarded.stack.ports, (guarded.keys["team"], guarded.keys["operator"])
    request = f"{head}host: a\r\nauthorization: Bearer {flooder}\r\n{LENGTH}\r\n".encode()
    large = ChatRequest(model="sluice-demo", messages=[Message(content=[ContentPart(text="a " * MIB)])])
    framed = b"\0" + large.ByteSize().to_bytes(4, "big") + large.SerializeToString()
    headers = {"authorization": f"Bearer {other}", "content-type": "application/grpc-web+proto"}
    with EnvoyProcess(ports["gateway"], ports["service"]) as envoy, connections(envoy, 700, request):
        envoy.until(lambda: envoy.stat("http.front_door.downstream_rq_completed") >= 150)  # rejections
        answer = httpx.post(envoy.url + GRPC_CHAT, content=framed, headers=headers, timeout=GUARD_S)
        assert answer.headers["grpc-status"] == "3", answer.headers  # INVALID_ARGUMENT, of the whole message
        serves_others(envoy, authorization=f"Bearer {other}")


@pytest.mark.parametrize("kind", ["grpc", "grpc-web+proto"])
def test_grpc_call_over_http1_without_a_length_is_rejected(stack: Stack, kind: str) -> None:
    """A call over HTTP/1.1 in chunks, whose size no one knows in advance, is rejected with a status of gRPC."""
    headers = {"content-type": f"application/{kind}"}
    answer = httpx.post(stack.url + GRPC_CHAT, content=iter([bytes(5)]), headers=headers, timeout=GUARD_S)
    assert answer.headers["grpc-status"] == "3"
    assert (answer.headers.get("grpc-message") or answer.text) == "calls over HTTP/1 need a content-length"
