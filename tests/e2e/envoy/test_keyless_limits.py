"""The limits of callers without a key (docs/envoy.md#what-needs-no-key): what they occupy is not what others need."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any

import httpx

from runner.proxy.envoy_config import connection_manager
from tests.e2e.connections import SlowUpstream, connections, door_with, serves
from tests.e2e.door import Door
from tests.e2e.envoy.http2 import WATCH, begun_calls
from tests.e2e.stack import Stack
from tests.waiting import GUARD_S


def operators_route(config: dict[str, Any]) -> dict[str, Any]:
    """Return the route of the pages for operators."""
    (host,) = connection_manager(config)["route_config"]["virtual_hosts"]
    found: dict[str, Any]
    (found,) = (each for each in host["routes"] if each["name"] == "operators")
    return found


def test_watches_of_health_take_no_call_of_others(stack: Stack) -> None:
    """More watches than all calls that Envoy forwards leave calls, checks and readiness as they were."""
    watches = begun_calls(300, WATCH, b"")

    def has_received(num_calls: int) -> bool:
        return door.stat("http.front_door.downstream_rq_total") >= num_calls

    with Door(stack.ports["gateway"], stack.ports["service"]) as door, ExitStack() as flood:
        for number in range(2, 18):  # one after the other: a burst would fill the queue of pending calls instead
            flood.enter_context(connections(door, 1, watches, f"127.0.0.{number}"))
            door.until(partial(has_received, (number - 1) * 300))
        door.until(lambda: door.stat("http.front_door.downstream_rq_active") == 2048)
        assert door.stat("cluster.service-watch.upstream_rq_active") == 2048
        serves(door)


def test_requests_for_metrics_take_no_health_check(stack: Stack) -> None:
    """Requests for metrics and the status page above their limit get 503, while health checks are answered."""

    def change(config: dict[str, Any]) -> None:  # what is tested is not the route's timeout
        operators_route(config)["route"]["timeout"] = "0s"

    with SlowUpstream() as upstream, Door(upstream.port, stack.ports["service"], change) as door:
        with ThreadPoolExecutor(100) as pool:
            paths = ["/metrics", "/status.json"] * 50
            answers = [pool.submit(httpx.get, door.url + path, timeout=GUARD_S) for path in paths]
            stats = [
                f"cluster.gateway-operators.upstream_rq_{name}"
                for name in ("pending_overflow", "active", "pending_active")
            ]
            door.until(lambda: sum(map(door.stat, stats)) == 100)
            for path in ("/livez", "/healthz", "/readyz"):
                assert httpx.get(door.url + path, timeout=GUARD_S).status_code == 200
            upstream.release.set()
            codes = sorted(answer.result().status_code for answer in answers)
        num_served = codes.count(200)  # a request also waits while its connection is opened
        assert 16 <= num_served <= 32
        assert codes == [200] * num_served + [503] * (100 - num_served)


def test_an_address_cannot_occupy_metrics(stack: Stack) -> None:
    """An address that asks for metrics too often gets 429; other addresses, and other paths, are served."""

    def change(config: dict[str, Any]) -> None:
        (descriptor,) = operators_route(config)["typed_per_filter_config"]["envoy.filters.http.local_ratelimit"][
            "descriptors"
        ]
        descriptor["token_bucket"] = {"max_tokens": 3, "tokens_per_fill": 1, "fill_interval": "3600s"}

    with door_with(stack, change) as door:
        paths = ["/metrics", "/status.json", "/metrics", "/metrics"]
        codes = [httpx.get(door.url + path, timeout=GUARD_S).status_code for path in paths]
        assert codes == [200, 200, 200, 429]
        with httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.2"), timeout=GUARD_S) as other:
            assert other.get(f"{door.url}/metrics").status_code == 200
        serves(door)
