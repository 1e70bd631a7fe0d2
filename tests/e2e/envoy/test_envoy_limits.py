"""Each of Envoy's limits (docs/operation/envoy.md): an overload of one client must not affect other clients."""

import contextlib
import copy
import http.client
import socket
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import Any

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from runner.proxy.envoy_config import connection_manager
from tests.e2e.connections import SlowUpstream, check_serving, connections, envoy_with, full_backlog, health, is_closed
from tests.e2e.envoy_process import EnvoyProcess, http_filter
from tests.e2e.stack import Stack, free_ports
from tests.waiting import GUARD_S

HALF_REST = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{"
HALF_GRPC = (
    b"POST /sluice.v1.ChatService/Chat HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/grpc-web+proto\r\n"
    b"content-length: 100\r\n\r\n\0"
)


def is_stat(envoy: EnvoyProcess, name: str, value: int) -> bool:
    """Return True if a counter or gauge of Envoy has this value."""
    return envoy.stat(name) == value


def list_of_models(connection: socket.socket) -> bytes:
    """Return the whole response, so that the next one starts on the same connection."""
    answer = b""
    connection.settimeout(GUARD_S)
    while not answer.endswith(b"]}"):
        received = connection.recv(1 << 16)
        assert received, answer
        answer += received
    return answer


def status_line(connection: socket.socket) -> bytes:
    """Return the first line of a response."""
    connection.settimeout(GUARD_S)
    with connection.makefile("rb") as answer:
        return answer.readline()


def test_connections_are_limited_by_address(stack: Stack) -> None:
    """Connections above an address's limit are closed; its earlier ones and other addresses are served."""

    def change(config: dict[str, Any]) -> None:
        (chain,) = config["static_resources"]["listeners"][0]["filter_chains"]
        chain["filters"][0]["typed_config"]["config"]["configuration"]["value"] = "10"

    with envoy_with(stack, change) as envoy:
        # The connections of the health probes are closed by then.
        envoy.until(lambda: envoy.stat("http.front_door.downstream_cx_active") == 0)
        with connections(envoy, 10) as opened:
            for _ in range(2):  # closed connections no longer count
                with connections(envoy, 30) as rejected:
                    assert all(is_closed(each) for each in rejected)
                with httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.2"), timeout=GUARD_S) as other:
                    assert other.get(f"{envoy.url}/v1/models").status_code == 200
                opened[0].sendall(b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n")
                assert list_of_models(opened[0]).startswith(b"HTTP/1.1 200 ")
            opened.pop().close()
            envoy.until(lambda: envoy.stat("http.front_door.downstream_cx_active") == 9)
            assert httpx.get(f"{envoy.url}/v1/models", timeout=GUARD_S).status_code == 200


def test_threads_share_the_limit_of_an_address(stack: Stack) -> None:
    """An address has as many connections as the limit allows, whichever of Envoy's threads accept them."""

    def change(config: dict[str, Any]) -> None:
        (chain,) = config["static_resources"]["listeners"][0]["filter_chains"]
        chain["filters"][0]["typed_config"]["config"]["configuration"]["value"] = "10"

    with EnvoyProcess(stack.ports["gateway"], stack.ports["service"], change, threads=4) as envoy:
        for _ in range(2):
            # Those of the health probes are closed by then, and the first fifty.
            envoy.until(lambda: envoy.stat("http.front_door.downstream_cx_active") == 0)
            with connections(envoy, 50) as opened:
                assert sum(is_served(each) for each in opened) == 10


def is_served(connection: socket.socket) -> bool:
    """Send a request. Return True if it is answered, and False if the connection is closed."""
    connection.settimeout(GUARD_S)
    try:
        connection.sendall(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
        return connection.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
    except ConnectionError:
        return False


@pytest.mark.parametrize("half", [HALF_REST, HALF_GRPC], ids=["REST", "gRPC"])
def test_incomplete_bodies_block_no_request(stack: Stack, half: bytes) -> None:
    """1,100 incomplete bodies use no connection and no call of the upstreams."""
    with contextlib.ExitStack() as flood:
        envoy = flood.enter_context(EnvoyProcess(stack.ports["gateway"], stack.ports["service"]))
        for address in ("127.0.0.2", "127.0.0.3"):
            flood.enter_context(connections(envoy, 550, half, address))
        envoy.until(lambda: envoy.stat("http.front_door.downstream_rq_active") >= 1100)
        check_serving(envoy)
        assert envoy.stat("http.front_door.downstream_rq_active") >= 1100
        assert envoy.stat("cluster.gateway.upstream_rq_active") == 0


def test_incomplete_body_gets_408(stack: Stack) -> None:
    """An incomplete body is answered with 408 in the dialect's shape after the timeout."""
    with envoy_with(stack, lambda config: connection_manager(config).update(request_timeout="0.5s")) as envoy:
        with connections(envoy, 1, HALF_REST) as (connection,):
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            body = answer.read()
        assert answer.status == 408
        assert b'"message":"the request did not arrive whole in time"' in body


def test_incomplete_headers_get_408(stack: Stack) -> None:
    """Incomplete headers are answered with 408 after the timeout, and the connection is closed."""

    def change(config: dict[str, Any]) -> None:
        connection_manager(config)["request_headers_timeout"] = "0.5s"

    with envoy_with(stack, change) as envoy, connections(envoy, 1, HALF_REST[:40]) as (connection,):
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 408 ")
        assert is_closed(connection)


def test_idle_connections_are_closed(stack: Stack) -> None:
    """Idle connections at the connection limit are closed after the timeout, so that other clients can connect."""

    def change(config: dict[str, Any]) -> None:
        config["overload_manager"]["resource_monitors"][0]["typed_config"]["max_active_downstream_connections"] = 20
        connection_manager(config)["common_http_protocol_options"]["idle_timeout"] = "2s"

    with envoy_with(stack, change) as envoy, connections(envoy, 20) as opened, connections(envoy, 1) as (rejected,):
        assert is_closed(rejected)
        assert all(is_closed(each) for each in opened)
        check_serving(envoy)


def test_streams_of_a_connection_are_limited(stack: Stack) -> None:
    """A call above the stream limit of a connection waits until another one has ended."""

    def change(config: dict[str, Any]) -> None:
        connection_manager(config)["http2_protocol_options"]["max_concurrent_streams"] = 5

    with envoy_with(stack, change) as envoy, grpc.insecure_channel(envoy.target) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        calls = [stub.Watch(health_pb2.HealthCheckRequest()) for _ in range(5)]
        assert {next(call).status for call in calls} == {health_pb2.HealthCheckResponse.SERVING}
        one_more = stub.Watch(health_pb2.HealthCheckRequest())
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(next, one_more)
            assert not wait([answer], timeout=1).done
            assert envoy.stat("http.front_door.downstream_rq_active") == 5
            calls.pop().cancel()
            assert answer.result(timeout=GUARD_S).status == health_pb2.HealthCheckResponse.SERVING
        for call in (*calls, one_more):
            call.cancel()


def test_call_above_the_maximum_duration_is_reset(stack: Stack) -> None:
    """A gRPC call without an end is reset at the maximum duration; other calls continue."""

    def change(config: dict[str, Any]) -> None:
        clusters = {each["name"]: each for each in config["static_resources"]["clusters"]}
        for name in ("service", "service-watch"):
            (options,) = clusters[name]["typed_extension_protocol_options"].values()
            assert options["common_http_protocol_options"] == {"max_stream_duration": "3600s"}
        # Only of watches: on a busy machine another call may take as long.
        kept = copy.deepcopy(clusters["service-watch"])
        (options,) = kept["typed_extension_protocol_options"].values()
        options["common_http_protocol_options"]["max_stream_duration"] = "1s"
        clusters["service-watch"] |= kept

    with envoy_with(stack, change) as envoy, grpc.insecure_channel(envoy.target) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        with pytest.raises(grpc.RpcError):
            list(stub.Watch(health_pb2.HealthCheckRequest()))
        assert envoy.stat("cluster.service-watch.upstream_rq_max_duration_reached") == 1
        assert envoy.stat("cluster.service-watch.upstream_rq_active") == 0
        check_serving(envoy)


def test_1000_streams_on_one_connection_are_accepted(stack: Stack) -> None:
    """1,000 concurrent calls on one connection are accepted."""

    def change(config: dict[str, Any]) -> None:  # watches of health, which the test can keep running, have a limit
        (host,) = connection_manager(config)["route_config"]["virtual_hosts"]
        host["routes"] = [route for route in host["routes"] if route["name"] != "grpc-watch"]

    with envoy_with(stack, change) as envoy, grpc.insecure_channel(envoy.target) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)  # it ships no types
        calls = [stub.Watch(health_pb2.HealthCheckRequest()) for _ in range(1000)]
        assert {next(call).status for call in calls} == {health_pb2.HealthCheckResponse.SERVING}
        assert envoy.stat("cluster.service.upstream_rq_active") == 1000
        for call in calls:
            call.cancel()


def test_requests_are_limited_by_address(stack: Stack) -> None:
    """An address above its request rate gets 429 or RESOURCE_EXHAUSTED with Retry-After; others are served."""

    def change(config: dict[str, Any]) -> None:
        (descriptor,) = http_filter(config, "local_ratelimit")["descriptors"]
        descriptor["token_bucket"] = {"max_tokens": 3, "tokens_per_fill": 1, "fill_interval": "3600s"}

    with envoy_with(stack, change) as envoy:
        answers = [httpx.get(f"{envoy.url}/v1/models", timeout=GUARD_S) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert answers[3].headers["retry-after"] == "1"
        assert answers[3].json()["error"]["code"] == "rate_limit_exceeded"
        assert health(envoy) == "RESOURCE_EXHAUSTED"
        with httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.2"), timeout=GUARD_S) as other:
            assert other.get(f"{envoy.url}/v1/models").status_code == 200


def test_a_clients_forwarded_address_is_ignored(stack: Stack) -> None:
    """Envoy ignores x-forwarded-for unless it is configured to trust a proxy."""

    def change(config: dict[str, Any]) -> None:
        (descriptor,) = http_filter(config, "local_ratelimit")["descriptors"]
        descriptor["token_bucket"] = {"max_tokens": 2, "tokens_per_fill": 1, "fill_interval": "3600s"}

    def trusting(config: dict[str, Any]) -> None:
        change(config)
        connection_manager(config)["xff_num_trusted_hops"] = 1

    headers = [{"x-forwarded-for": f"203.0.113.{number}"} for number in range(4)]
    with envoy_with(stack, change) as envoy:
        codes = [httpx.get(f"{envoy.url}/v1/models", headers=each, timeout=GUARD_S).status_code for each in headers]
    assert codes == [200, 200, 429, 429]
    with envoy_with(stack, trusting) as envoy:
        codes = [httpx.get(f"{envoy.url}/v1/models", headers=each, timeout=GUARD_S).status_code for each in headers]
    assert codes == [200] * 4


def test_requests_above_the_circuit_breakers_are_rejected(stack: Stack) -> None:
    """Requests above the limits of connections and pending requests get 503; /healthz still responds."""

    def change(config: dict[str, Any]) -> None:
        for cluster in config["static_resources"]["clusters"]:
            if cluster["name"] == "gateway":
                cluster["circuit_breakers"]["thresholds"][0].update(max_connections=2, max_pending_requests=1)

    with SlowUpstream("/v1/slow") as upstream, EnvoyProcess(upstream.port, stack.ports["service"], change) as envoy:
        with ThreadPoolExecutor(8) as pool:
            answers = []
            # One after the other: a request is also pending while its connection is opened.
            for name, count in (("active", 1), ("active", 2), ("pending_active", 1), ("pending_overflow", 5)):
                num_more = count if name == "pending_overflow" else 1
                answers += [pool.submit(httpx.get, f"{envoy.url}/v1/slow", timeout=GUARD_S) for _ in range(num_more)]
                envoy.until(partial(is_stat, envoy, f"cluster.gateway.upstream_rq_{name}", count))
            assert httpx.get(f"{envoy.url}/healthz", timeout=GUARD_S).status_code == 200
            upstream.release.set()
            codes = sorted(answer.result().status_code for answer in answers)
        assert codes == [200] * 3 + [503] * 5


def test_requests_that_reached_no_upstream_are_retried(stack: Stack) -> None:
    """With one dead host of two, every request succeeds."""
    dead = free_ports(1)[0]

    def change(config: dict[str, Any]) -> None:
        for cluster in config["static_resources"]["clusters"]:
            if cluster["name"] == "gateway":
                del cluster["health_checks"]
                hosts = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]
                hosts.append(
                    {"endpoint": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": dead}}}}
                )

    with envoy_with(stack, change) as envoy:
        assert {httpx.get(f"{envoy.url}/v1/models", timeout=GUARD_S).status_code for _ in range(20)} == {200}
        assert envoy.stat("cluster.gateway.upstream_rq_retry_success") > 0


def test_retries_have_a_budget(stack: Stack) -> None:
    """If no host is reachable, at most a fifth of the active requests, or three, are retried at a time."""

    def change(config: dict[str, Any]) -> None:
        for cluster in config["static_resources"]["clusters"]:
            if cluster["name"] == "gateway":
                del cluster["health_checks"]

    with full_backlog() as port, EnvoyProcess(port, stack.ports["service"], change) as envoy:
        request = b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        with connections(envoy, 40, request) as opened:
            assert {status_line(each) for each in opened} == {b"HTTP/1.1 503 Service Unavailable\r\n"}
        assert envoy.stat("cluster.gateway.upstream_rq_retry_overflow") > 0
        assert 0 < envoy.stat("cluster.gateway.upstream_rq_retry") < 40
