"""An upstream that sends limits of requests in flight, and requests to it through Envoy."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

from runner.proxy.envoy_config import connection_manager
from tests.e2e.envoy_process import EnvoyProcess
from tests.e2e.stack import Stack
from tests.waiting import GUARD_S

FOREVER = 2_000_000_000


class LimitedUpstream:
    """An HTTP server whose answers have the status and limit of the request's body; those of held ones don't end."""

    def __init__(self) -> None:
        self.release = release = threading.Event()
        self.num_held = 0  # requests so far
        self._lock = threading.Lock()
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
                self.send_response(body.get("status", 200))
                self.send_header("content-length", "2")
                if body.get("grpc_status"):
                    self.send_header("grpc-status", body["grpc_status"])
                if "limit" in body:
                    self.send_header("x-sluice-limit", body["limit"])
                self.end_headers()
                if body.get("held"):
                    with upstream._lock:
                        upstream.num_held += 1
                    release.wait(GUARD_S)
                self.wfile.write(b"{}")

            def do_GET(self) -> None:  # health
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the library's name
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        """Release held requests and stop."""
        self.release.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Calls:
    """Requests through an Envoy, some of which are held by its upstream."""

    def __init__(self, envoy: EnvoyProcess, upstream: LimitedUpstream, pool: ThreadPoolExecutor) -> None:
        self.envoy = envoy
        self._upstream = upstream
        self._pool = pool
        self._held: list[Future[httpx.Response]] = []

    def post(
        self, key: str = "a", path: str = "/v1/chat/completions", headers: dict[str, str] | None = None, **body: Any
    ) -> httpx.Response:
        """Return the answer to a request of a key, or with other headers."""
        headers = headers or {"authorization": f"Bearer {key}"}
        return httpx.post(self.envoy.url + path, json=body, headers=headers, timeout=GUARD_S)

    def hold(self, count: int, key: str = "a") -> None:
        """Send requests that don't end, and return when the upstream has all."""
        self._held += [self._pool.submit(self.post, key, held=True) for _ in range(count)]
        self.envoy.until(lambda: self.num_in_flight() == len(self._held))

    def release(self) -> None:
        """End the requests that are held. Later ones aren't."""
        self._upstream.release.set()
        assert {each.result().status_code for each in self._held} == {200}
        self._held.clear()
        self.envoy.until(lambda: self.num_in_flight() == 0)
        self._upstream.release.clear()

    def num_held(self) -> int:
        """Return the number of held requests that the upstream has got so far."""
        return self._upstream.num_held

    def num_in_flight(self) -> int:
        """Return the number of requests that Envoy has forwarded and that haven't ended."""
        return self.envoy.stat("cluster.gateway.upstream_rq_active")


@contextmanager
def calls(stack: Stack, *, overload_ms: int = FOREVER, delay_ms: int = 1) -> Iterator[Calls]:
    """Run Envoy with a filter whose limits hold for ever, before an upstream for REST and the product's service."""

    def change(config: dict[str, Any]) -> None:
        (found,) = (each for each in connection_manager(config)["http_filters"] if each["name"] == "admission")
        found["typed_config"]["config"]["configuration"]["value"] = f"1;{FOREVER};{overload_ms};{delay_ms}"

    upstream = LimitedUpstream()
    try:
        with EnvoyProcess(upstream.port, stack.ports["service"], change) as envoy, ThreadPoolExecutor(16) as pool:
            try:
                yield Calls(envoy, upstream, pool)
            finally:
                upstream.release.set()
    finally:
        upstream.close()
