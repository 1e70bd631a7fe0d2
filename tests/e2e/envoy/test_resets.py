"""Reset calls: clients that cancel, vanish or set short deadlines harm no other call."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from sluice.v1 import chat_pb2_grpc

from tests.e2e.answers.test_chat import grpc_request
from tests.e2e.connections import connections, serves
from tests.e2e.door import Door, http_filter
from tests.e2e.stack import Stack

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)  # with an empty SETTINGS frame
CANCEL = (8).to_bytes(4, "big")
SERVING = health_pb2.HealthCheckResponse.SERVING
WATCH, CHAT = "/grpc.health.v1.Health/Watch", "/sluice.v1.ChatService/StreamChat"
OWN = [("grpc.use_local_subchannel_pool", 1)]
NUM_STREAMS = 1024  # as many as a connection may have


@pytest.fixture
def door(stack: Stack) -> Iterator[Door]:
    """Envoy with the product's configuration."""
    with Door(stack.ports["gateway"], stack.ports["service"]) as running:
        yield running


def watch(channel: grpc.Channel) -> Any:
    """Return a running call that ends only if it is cancelled or its connection is closed."""
    stub: Any = health_pb2_grpc.HealthStub(channel)  # it ships no types
    call = stub.Watch(health_pb2.HealthCheckRequest())
    assert next(call).status == SERVING
    return call


def test_a_client_that_vanishes_with_many_streams_cuts_no_other(door: Door) -> None:
    """A connection that closes with 1,024 calls ends no call of another connection."""
    with grpc.insecure_channel(door.target, OWN) as other:
        kept = watch(other)
        with connections(door, 1, begun_calls(NUM_STREAMS, WATCH, b"")):
            door.until(lambda: door.stat("cluster.service.upstream_rq_active") == NUM_STREAMS + 1)
        door.until(lambda: door.stat("cluster.service.upstream_rq_active") <= 1)
        assert door.stat("cluster.service.http2.outbound_control_flood") == 0
        assert kept.is_active()
        kept.cancel()
    serves(door)


def literal(name: str, value: str) -> bytes:
    """Return a header of HPACK that needs no table."""
    return b"\x10" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Return a frame of HTTP/2."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def begun_calls(count: int, path: str, message: bytes, *, reset: bool = False) -> bytes:
    """Return the bytes of calls with a complete request on a new connection, each followed by its reset if `reset`."""
    names = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "a"}
    names |= {"content-type": "application/grpc", "te": "trailers", "authorization": "Bearer wrong"}
    headers = b"".join(literal(*each) for each in names.items())
    body = b"\0" + len(message).to_bytes(4, "big") + message
    streams = range(1, 2 * count, 2)
    return PREFACE + b"".join(
        frame(1, 4, number, headers) + frame(0, 1, number, body) + (frame(3, 0, number, CANCEL) if reset else b"")
        for number in streams
    )


def resets(count: int) -> bytes:
    """Return the bytes that cancel these calls."""
    return b"".join(frame(3, 0, number, CANCEL) for number in range(1, 2 * count, 2))


def test_many_cancelled_calls_cut_no_other(door: Door) -> None:
    """3,800 calls that are cancelled at once end no call of another connection."""
    with grpc.insecure_channel(door.target, OWN) as other:
        kept = watch(other)
        calls = begun_calls(240, CHAT, grpc_request().SerializeToString()) + resets(240)
        for _ in range(16):
            with connections(door, 1, calls):
                pass
        door.until(lambda: door.stat("cluster.service.upstream_rq_active") <= 1)
        assert kept.is_active()
        assert door.stat("cluster.service.http2.outbound_control_flood") == 0
        kept.cancel()
    serves(door)


def test_a_flood_of_resets_reaches_no_service(stack: Stack) -> None:
    """Of 12,000 calls that are cancelled at once, fewer than a tenth are forwarded; another call continues meanwhile."""

    def change(config: dict[str, Any]) -> None:  # what is tested is not the limit by address
        (descriptor,) = http_filter(config, "local_ratelimit")["descriptors"]
        descriptor["token_bucket"]["max_tokens"] = 1_000_000

    with (
        Door(stack.ports["gateway"], stack.ports["service"], change) as door,
        grpc.insecure_channel(door.target, OWN) as other,
    ):
        answer = chat_pb2_grpc.ChatServiceStub(other).StreamChat(grpc_request())
        assert next(answer).HasField("started")
        message = grpc_request().SerializeToString()
        for _ in range(12):
            with connections(door, 1, begun_calls(1000, CHAT, message, reset=True)):
                pass
        door.until(lambda: door.stat("http.front_door.downstream_cx_active") == 1)
        assert list(answer)[-1].HasField("completed")
        assert door.stat("cluster.service.upstream_rq_total") < 1200
        serves(door)


def test_short_deadlines_cut_no_stream_of_their_connection(door: Door) -> None:
    """1,000 calls with deadlines of 5 ms end as they should, and a stream of the same connection continues."""
    with grpc.insecure_channel(door.target, OWN) as channel:
        kept = watch(channel)
        stub = chat_pb2_grpc.ChatServiceStub(channel)

        def end(_: int) -> str:
            try:
                list(stub.StreamChat(grpc_request(), timeout=0.005))
            except grpc.RpcError as error:
                return str(error.code().name)
            return "OK"

        with ThreadPoolExecutor(4) as pool:
            ends = Counter(pool.map(end, range(1000)))
        assert set(ends) <= {"OK", "DEADLINE_EXCEEDED"}, ends
        assert ends["DEADLINE_EXCEEDED"] > 500
        assert kept.is_active()
        kept.cancel()
    serves(door)
