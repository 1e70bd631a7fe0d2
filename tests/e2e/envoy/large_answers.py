"""A gRPC server whose streams have one large message, and whose other calls have none."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

NUM_BYTES = 1 << 20


class _Answers(grpc.GenericRpcHandler):
    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        method: str = details.method
        if method.startswith("/grpc.health"):
            return None
        if "/Stream" in method:
            return grpc.unary_stream_rpc_method_handler(lambda request, context: iter([bytes(NUM_BYTES)]))
        return grpc.unary_unary_rpc_method_handler(lambda request, context: b"")


@contextmanager
def large_answers(num_unread: int) -> Iterator[int]:
    """Serve on a free port, and yield it."""
    server = grpc.server(ThreadPoolExecutor(num_unread + 4))  # one is blocked by each answer that is not read
    servicer: Any = health.HealthServicer()  # it ships no types
    servicer.set("sluice.v1.ChatService", health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    server.add_generic_rpc_handlers((_Answers(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(0).wait()
