"""Envoy's overload actions when its heap is full."""

import contextlib
import select
import subprocess
from collections.abc import Callable
from typing import Any

import httpx

from tests.e2e.connections import check_serving, connections, envoy_with, health, is_closed
from tests.e2e.envoy_process import EnvoyProcess
from tests.e2e.stack import Stack
from tests.waiting import GUARD_S


def only(action: str) -> Callable[[dict[str, Any]], None]:
    """Return a change that makes the heap full from the start and keeps one overload action."""

    def change(config: dict[str, Any]) -> None:
        manager = config["overload_manager"]
        manager["resource_monitors"][1]["typed_config"]["max_heap_size_bytes"] = 1
        manager["actions"] = [each for each in manager["actions"] if each["name"].endswith("." + action)]

    return change


def test_a_full_heap_stops_requests(stack: Stack) -> None:
    """Requests get 503 with Retry-After, and UNAVAILABLE over gRPC."""
    with EnvoyProcess(
        stack.ports["gateway"], stack.ports["service"], only("stop_accepting_requests"), healthy=False
    ) as envoy:
        envoy.until(lambda: envoy.stat("overload.envoy.overload_actions.stop_accepting_requests.active") == 1)
        answer = httpx.get(f"{envoy.url}/v1/models", timeout=GUARD_S)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.json()["error"]["type"] == "server_error"
        assert health(envoy) == "UNAVAILABLE"


def test_a_full_heap_stops_connections(stack: Stack) -> None:
    """No new connection is accepted."""
    with EnvoyProcess(
        stack.ports["gateway"], stack.ports["service"], only("stop_accepting_connections"), healthy=False
    ) as envoy:
        envoy.until(lambda: envoy.stat("overload.envoy.overload_actions.stop_accepting_connections.active") == 1)
        with connections(envoy, 3, b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n") as opened:
            assert not select.select(opened, [], [], 1)[0]
        assert envoy.stat("http.front_door.downstream_cx_total") == 0


def test_a_full_heap_ends_keep_alive(stack: Stack) -> None:
    """Connections are closed after their response."""
    with envoy_with(stack, only("disable_http_keepalive")) as envoy:
        envoy.until(lambda: envoy.stat("overload.envoy.overload_actions.disable_http_keepalive.active") == 1)
        assert httpx.get(f"{envoy.url}/v1/models", timeout=GUARD_S).headers["connection"] == "close"


def test_a_full_heap_shortens_idle_times(stack: Stack) -> None:
    """Idle connections are closed long before the normal timeout of five minutes."""
    with envoy_with(stack, only("reduce_timeouts")) as envoy:
        envoy.until(lambda: envoy.stat("overload.envoy.overload_actions.reduce_timeouts.scale_percent") == 100)
        with connections(envoy, 1) as (connection,):
            assert is_closed(connection)


def test_a_full_heap_releases_memory(stack: Stack) -> None:
    """Envoy repeatedly returns unused memory of its allocator to the system."""
    with envoy_with(stack, only("shrink_heap")) as envoy:
        envoy.until(lambda: envoy.stat("overload.envoy.overload_actions.shrink_heap.active") == 1)
        envoy.until(lambda: envoy.stat("overload.envoy.overload_actions.shrink_heap.shrink_count") > 0)
        check_serving(envoy)


def test_a_full_heap_resets_the_largest_streams(stack: Stack) -> None:
    """A stream that makes Envoy buffer 20 MiB is reset when the heap is too small; other requests succeed."""
    pressure = "overload.envoy.resource_monitors.fixed_heap.pressure"
    num_bytes = (20 << 20) - 5
    message = b"\0" + num_bytes.to_bytes(4, "big") + bytes(num_bytes)  # of gRPC

    def heap_of(num_mib: int) -> Callable[[dict[str, Any]], None]:
        def change(config: dict[str, Any]) -> None:
            only("reset_high_memory_stream")(config)
            heap = config["overload_manager"]["resource_monitors"][1]["typed_config"]
            heap["max_heap_size_bytes"] = num_mib << 20

        return change

    def send(envoy: EnvoyProcess, *, is_whole: bool) -> int:
        """Return curl's exit code. A message that isn't whole lacks its last byte until the stream has ended."""
        command = ["curl", "--http2-prior-knowledge", "--silent", "-X", "POST", "-T", "."]  # it reads answers meanwhile
        command += ["-H", "content-type: application/grpc", f"{envoy.url}/sluice.v1.ChatService/Chat"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as curl:
            assert curl.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # it has ended
                curl.stdin.write(message if is_whole else message[:-1])
                curl.stdin.flush()
            if is_whole:
                curl.stdin.close()
            return curl.wait(GUARD_S)

    with envoy_with(stack, heap_of(200)) as envoy:
        envoy.until(lambda: envoy.stat(pressure) > 0)
        num_mib_idle = 2 * envoy.stat(pressure)  # in percent of 200 MiB
        assert send(envoy, is_whole=True) == 0
    with envoy_with(stack, heap_of((num_mib_idle + 8) * 2)) as envoy:  # 8 MiB more are half of it
        assert send(envoy, is_whole=False) == 92  # curl's code for a stream that was reset
        check_serving(envoy)
