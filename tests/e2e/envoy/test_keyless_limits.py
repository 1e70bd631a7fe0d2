"""The limits of callers without a key (docs/operation/envoy.md#what-needs-no-key) protect those with one."""

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any

import grpc
import httpx
import pytest
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from runner.proxy.envoy_config import connection_manager
from tests.e2e.connections import SlowUpstream, check_serving, connections, envoy_with, health
from tests.e2e.envoy.http2 import WATCH, begun_calls
from tests.e2e.envoy.limited_upstream import calls
from tests.e2e.envoy_process import EnvoyProcess
from tests.e2e.stack import Stack
from tests.waiting import GUARD_S


def route_of(config: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a route."""
    (host,) = connection_manager(config)["route_config"]["virtual_hosts"]
    found: dict[str, Any]
    (found,) = (each for each in host["routes"] if each["name"] == name)
    return found


def limit_of(config: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the token bucket of each address for a route."""
    (descriptor,) = route_of(config, name)["typed_per_filter_config"]["envoy.filters.http.local_ratelimit"][
        "descriptors"
    ]
    bucket: dict[str, Any] = descriptor["token_bucket"]
    return bucket


def without_timeout(config: dict[str, Any]) -> None:
    """Remove the timeouts of the routes for operators, which the tests of other limits don't need."""
    for name in ("health", "operators"):
        route_of(config, name)["route"]["timeout"] = "0s"


def test_health_watches_do_not_block_calls(stack: Stack) -> None:
    """More watches than all calls that Envoy forwards leave calls, checks and readiness as they were."""
    watches = begun_calls(300, WATCH, b"")

    def change(config: dict[str, Any]) -> None:  # what is tested is not the limit by address
        limit_of(config, "grpc-watch")["max_tokens"] = 300

    def has_received(num_calls: int) -> bool:
        return envoy.stat("http.front_door.downstream_rq_total") >= num_calls

    with EnvoyProcess(stack.ports["gateway"], stack.ports["service"], change) as envoy, ExitStack() as flood:
        # One after the other, since a burst would fill the queue of pending calls instead, and until all of them are
        # taken: a service that can't keep up ends some of the watches.
        for number in range(2, 250):
            flood.enter_context(connections(envoy, 1, watches, f"127.0.0.{number}"))
            envoy.until(partial(has_received, (number - 1) * 300))
            if envoy.stat("cluster.service-watch.upstream_rq_active") == 2048:
                break
        assert envoy.stat("http.front_door.downstream_rq_active") >= 2048
        check_serving(envoy)


def test_health_watches_are_limited_per_address(stack: Stack) -> None:
    """An address with 200 watches can start no more; calls and watches of other addresses are served."""
    with (
        EnvoyProcess(stack.ports["gateway"], stack.ports["service"]) as envoy,
        connections(envoy, 1, begun_calls(300, WATCH, b""), "127.0.0.2"),
    ):
        envoy.until(lambda: envoy.stat("http.front_door.downstream_rq_total") >= 300)
        envoy.until(lambda: envoy.stat("cluster.service-watch.upstream_rq_active") == 200)
        check_serving(envoy)
        with connections(envoy, 1, begun_calls(100, WATCH, b""), "127.0.0.3"):
            envoy.until(lambda: envoy.stat("cluster.service-watch.upstream_rq_active") == 300)


def test_metrics_requests_do_not_block_health_checks(stack: Stack) -> None:
    """Requests for metrics and the status page above their limit get 503, while health checks are answered."""
    with (
        SlowUpstream("/metrics", "/status.json") as upstream,
        EnvoyProcess(upstream.port, stack.ports["service"], without_timeout) as envoy,
    ):
        with ThreadPoolExecutor(100) as pool:
            paths = ["/metrics", "/status.json"] * 50
            answers = [pool.submit(httpx.get, envoy.url + path, timeout=GUARD_S) for path in paths]
            stats = [
                f"cluster.gateway-operators.upstream_rq_{name}"
                for name in ("pending_overflow", "active", "pending_active")
            ]
            envoy.until(lambda: sum(map(envoy.stat, stats)) == 100)
            for path in ("/livez", "/healthz", "/readyz"):
                assert httpx.get(envoy.url + path, timeout=GUARD_S).status_code == 200
            upstream.release.set()
            codes = sorted(answer.result().status_code for answer in answers)
        num_served = codes.count(200)  # a request also waits while its connection is opened
        assert 16 <= num_served <= 32
        assert codes == [200] * num_served + [503] * (100 - num_served)


def test_metrics_requests_are_limited_per_address(stack: Stack) -> None:
    """An address that asks for metrics too often gets 429; other addresses, and other paths, are served."""

    def change(config: dict[str, Any]) -> None:
        limit_of(config, "operators").update(max_tokens=3, tokens_per_fill=1, fill_interval="3600s")

    with envoy_with(stack, change) as envoy:
        paths = ["/metrics", "/status.json", "/metrics", "/metrics"]
        codes = [httpx.get(envoy.url + path, timeout=GUARD_S).status_code for path in paths]
        assert codes == [200, 200, 200, 429]
        with httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.2"), timeout=GUARD_S) as other:
            assert other.get(f"{envoy.url}/metrics").status_code == 200
        check_serving(envoy)


def test_health_checks_do_not_block_requests(stack: Stack) -> None:
    """Health checks above their limit get 503, while requests, metrics and gRPC are served."""
    with (
        SlowUpstream("/livez") as upstream,
        EnvoyProcess(upstream.port, stack.ports["service"], without_timeout) as envoy,
    ):
        with ThreadPoolExecutor(100) as pool:
            answers = [pool.submit(httpx.get, f"{envoy.url}/livez", timeout=GUARD_S) for _ in range(100)]
            stats = [f"cluster.gateway.upstream_rq_{name}" for name in ("pending_overflow", "active", "pending_active")]
            envoy.until(lambda: sum(map(envoy.stat, stats)) == 100)
            for path in ("/v1/models", "/metrics"):
                assert httpx.get(envoy.url + path, timeout=GUARD_S).status_code == 200
            assert health(envoy) == "OK"
            upstream.release.set()
            codes = [answer.result().status_code for answer in answers]
        num_served = codes.count(200)  # a request also waits while its connection is opened
        assert 32 <= num_served <= 64
        assert codes.count(503) == 100 - num_served


class SlowHealth(health_pb2_grpc.HealthServicer):
    """Answers checks of a named service, as Envoy sends them, and holds all others until `release`."""

    def __init__(self) -> None:
        self.release = asyncio.Event()

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802  the contract's name
        """Answer a check."""
        if not request.service:
            await self.release.wait()
        return health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVING)


async def test_grpc_health_checks_do_not_block_calls(stack: Stack) -> None:
    """Checks over gRPC above their limit end with UNAVAILABLE, while other calls reach the service."""
    server, servicer = aio.server(), SlowHealth()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    with await asyncio.to_thread(EnvoyProcess, stack.ports["gateway"], port) as envoy:
        async with aio.insecure_channel(envoy.target) as channel:
            stub: Any = health_pb2_grpc.HealthStub(channel)  # it ships no types
            checks = [asyncio.ensure_future(stub.Check(health_pb2.HealthCheckRequest())) for _ in range(300)]
            active = "cluster.service.upstream_rq_active"
            await asyncio.to_thread(envoy.until, lambda: envoy.stat(active) == 256)
            other: Any = channel.unary_unary("/sluice.v1.ModelService/ListModels")
            with pytest.raises(aio.AioRpcError) as caught:
                await other(b"", timeout=GUARD_S)
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED  # by the server
            servicer.release.set()
            ends = await asyncio.gather(*checks, return_exceptions=True)
    await server.stop(None)
    codes = Counter(end.code().name if isinstance(end, aio.AioRpcError) else "OK" for end in ends)
    assert codes == {"OK": 256, "UNAVAILABLE": 44}


@pytest.mark.parametrize("grpc_status", [None, "16"])
def test_invented_keys_take_no_shares_of_others(stack: Stack, grpc_status: str | None) -> None:
    """Callers that were only rejected don't count among those that may each have a request during an overload."""
    with calls(stack) as made:
        for key in ("polite", "flood"):
            made.post(key, limit="7;2;4")
        for number in range(6):
            made.post(f"invented {number}", status=200 if grpc_status else 401, grpc_status=grpc_status)
        made.hold(4, "flood")
        assert made.post("flood").status_code == 429
        assert [made.post("polite").status_code for _ in range(9)] == [200] * 9
        assert {made.post(f"invented {number}").status_code for number in range(6)} == {429}
