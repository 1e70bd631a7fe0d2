"""Reset calls: clients that cancel, vanish or set short deadlines harm no other call."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from sluice.v1 import chat_pb2_grpc

from runner.proxy.envoy_config import connection_manager
from tests.e2e.answers.test_chat import grpc_request, long_request
from tests.e2e.connections import check_serving, connections, envoy_with
from tests.e2e.envoy.http2 import CHAT, WATCH, begun_calls, resets
from tests.e2e.envoy_process import EnvoyProcess, http_filter
from tests.e2e.stack import Stack

SERVING = health_pb2.HealthCheckResponse.SERVING
OWN = [("grpc.use_local_subchannel_pool", 1)]
NUM_STREAMS = 1024  # as many as a connection may have


def share(config: dict[str, Any]) -> None:
    """Send a watch of health, the one call that a test can keep running, to the pool of all other calls."""
    (host,) = connection_manager(config)["route_config"]["virtual_hosts"]
    host["routes"] = [route for route in host["routes"] if route["name"] != "grpc-watch"]


@pytest.fixture
def envoy(stack: Stack) -> Iterator[EnvoyProcess]:
    """Envoy with the product's configuration."""
    with envoy_with(stack, share) as running:
        yield running


def watch(channel: grpc.Channel) -> Any:
    """Return a running call that ends only if it is cancelled or its connection is closed."""
    stub: Any = health_pb2_grpc.HealthStub(channel)  # it ships no types
    call = stub.Watch(health_pb2.HealthCheckRequest())
    assert next(call).status == SERVING
    return call


def test_closed_connection_with_many_streams_ends_no_other_call(envoy: EnvoyProcess) -> None:
    """A connection that closes with 1,024 calls ends no call of another connection."""
    with grpc.insecure_channel(envoy.target, OWN) as other:
        kept = watch(other)
        with connections(envoy, 1, begun_calls(NUM_STREAMS, WATCH, b"")):
            envoy.until(lambda: envoy.stat("cluster.service.upstream_rq_active") == NUM_STREAMS + 1)
        envoy.until(lambda: envoy.stat("cluster.service.upstream_rq_active") <= 1)
        assert envoy.stat("cluster.service.http2.outbound_control_flood") == 0
        assert kept.is_active()
        kept.cancel()
    check_serving(envoy)


def test_many_cancelled_calls_end_no_other_call(envoy: EnvoyProcess) -> None:
    """3,800 calls that are cancelled at once end no call of another connection."""
    with grpc.insecure_channel(envoy.target, OWN) as other:
        kept = watch(other)
        calls = begun_calls(240, CHAT, grpc_request().SerializeToString()) + resets(240)
        for _ in range(16):
            with connections(envoy, 1, calls):
                pass
        envoy.until(lambda: envoy.stat("cluster.service.upstream_rq_active") <= 1)
        assert kept.is_active()
        assert envoy.stat("cluster.service.http2.outbound_control_flood") == 0
        kept.cancel()
    check_serving(envoy)


def test_flood_of_resets_is_not_forwarded(stack: Stack) -> None:
    """Of 12,000 calls that are cancelled at once, fewer than a tenth are forwarded; another call continues."""

    def change(config: dict[str, Any]) -> None:  # what is tested is not the limit by address
        (descriptor,) = http_filter(config, "local_ratelimit")["descriptors"]
        descriptor["token_bucket"]["max_tokens"] = 1_000_000

    with (
        EnvoyProcess(stack.ports["gateway"], stack.ports["service"], change) as envoy,
        grpc.insecure_channel(envoy.target, OWN) as other,
    ):
        answer = chat_pb2_grpc.ChatServiceStub(other).StreamChat(grpc_request())
        assert next(answer).HasField("started")
        message = grpc_request().SerializeToString()
        for _ in range(12):
            with connections(envoy, 1, begun_calls(1000, CHAT, message, reset=True)):
                pass
        envoy.until(lambda: envoy.stat("http.front_door.downstream_cx_active") == 1)
        assert list(answer)[-1].HasField("completed")
        assert envoy.stat("cluster.service.upstream_rq_total") < 1200
        check_serving(envoy)


def test_short_deadlines_end_no_other_stream_of_their_connection(envoy: EnvoyProcess) -> None:
    """1,000 calls for long answers with deadlines of 5 ms expire, and a stream of the same connection continues."""
    with grpc.insecure_channel(envoy.target, OWN) as channel:
        kept = watch(channel)
        stub = chat_pb2_grpc.ChatServiceStub(channel)
        request = long_request()

        def end(_: int) -> str:
            try:
                list(stub.StreamChat(request, timeout=0.005))
            except grpc.RpcError as error:
                return str(error.code().name)
            return "OK"

        with ThreadPoolExecutor(4) as pool:
            ends = Counter(pool.map(end, range(1000)))
        assert ends == {"DEADLINE_EXCEEDED": 1000}
        assert kept.is_active()
        kept.cancel()
    check_serving(envoy)
