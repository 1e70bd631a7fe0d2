"""Clients and upstreams for the tests of Envoy's limits: many connections, and upstreams that do not respond."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import grpc
import httpx
from grpc_health.v1 import health as grpc_health
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.e2e.envoy_process import EnvoyProcess
from tests.e2e.stack import Stack
from tests.waiting import GUARD_S

CHAT = {"model": "sluice-demo", "max_tokens": 4, "messages": [{"role": "user", "content": "Hello!"}]}


def check_serving(envoy: EnvoyProcess) -> None:
    """Check that operators' paths, REST and gRPC respond."""
    for path in ("healthz", "readyz"):
        assert httpx.get(f"{envoy.url}/{path}", timeout=GUARD_S).status_code == 200
    assert httpx.post(f"{envoy.url}/v1/chat/completions", json=CHAT, timeout=GUARD_S).status_code == 200
    assert health(envoy) == "OK"


def health(envoy: EnvoyProcess) -> str:
    """Return the status name of a health check over gRPC."""
    with grpc.insecure_channel(envoy.target) as channel:
        try:
            stub: Any = health_pb2_grpc.HealthStub(channel)  # it ships no types
            stub.Check(health_pb2.HealthCheckRequest(), timeout=GUARD_S)
        except grpc.RpcError as error:
            return str(error.code().name)
    return "OK"


@contextlib.contextmanager
def connections(
    envoy: EnvoyProcess, count: int, content: bytes = b"", address: str = "127.0.0.1"
) -> Iterator[list[socket.socket]]:
    """Open connections from a local address and send `content` on each."""
    with contextlib.ExitStack() as stack:
        opened = [
            stack.enter_context(socket.create_connection(("127.0.0.1", envoy.port), source_address=(address, 0)))
            for _ in range(count)
        ]
        for each in opened:
            each.sendall(content)
        yield opened


def is_closed(connection: socket.socket, timeout_s: float = GUARD_S) -> bool:
    """Return True if the other end closes the connection, possibly after more data."""
    connection.settimeout(timeout_s)
    try:
        while connection.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


def envoy_with(stack: Stack, change: Callable[[dict[str, Any]], None]) -> EnvoyProcess:
    """Return an Envoy in front of the product with a changed configuration."""
    return EnvoyProcess(stack.ports["gateway"], stack.ports["service"], change)


class SlowUpstream:
    """An HTTP server: the `slow` paths wait for `release`, /v1/large is 32 MiB, all others are empty."""

    def __init__(self, *slow: str) -> None:
        self.release = release = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                if self.path in slow:
                    release.wait(GUARD_S)
                body = bytes(32 << 20) if self.path == "/v1/large" else b""
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                with contextlib.suppress(ConnectionError):
                    self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the library's name
                pass

        class Server(ThreadingHTTPServer):
            request_queue_size = 128  # the default of 5 delays connections that are opened together

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.release.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextlib.contextmanager
def full_backlog() -> Iterator[int]:
    """Yield a port where connections are neither accepted nor rejected."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port: int = listener.getsockname()[1]
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
        yield port


class _LargeAnswers(grpc.GenericRpcHandler):
    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        method: str = details.method
        if method.startswith("/grpc.health"):
            return None
        if "/Stream" in method:
            return grpc.unary_stream_rpc_method_handler(lambda request, context: iter([bytes(1 << 20)]))
        return grpc.unary_unary_rpc_method_handler(lambda request, context: b"")


@contextlib.contextmanager
def large_answers(num_unread: int) -> Iterator[int]:
    """Serve gRPC on a free port, and yield it: streams have one message of 1 MiB, other calls an empty one."""
    server = grpc.server(ThreadPoolExecutor(num_unread + 4))  # one is blocked by each answer that is not read
    servicer: Any = grpc_health.HealthServicer()  # it ships no types
    servicer.set("sluice.v1.ChatService", health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    server.add_generic_rpc_handlers((_LargeAnswers(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(0).wait()
