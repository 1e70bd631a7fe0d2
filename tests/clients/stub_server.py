"""A server of a few methods, for tests of this project's Python client without the product."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from contextlib import contextmanager
from typing import Any

import grpc
from sluice_client.methods import Method

Behaviour = Callable[[Any, grpc.ServicerContext], Any]


@contextmanager
def served(behaviours: Mapping[Method[Any, Any], Behaviour]) -> Iterator[str]:
    """Serve methods and yield the address. The behaviour of a streaming method is a generator."""
    server = grpc.server(futures.ThreadPoolExecutor(8))
    for method, behaviour in behaviours.items():
        kind = grpc.unary_stream_rpc_method_handler if method.is_stream else grpc.unary_unary_rpc_method_handler
        handler = kind(behaviour, method.request.FromString, method.answer.SerializeToString)
        _, service, name = method.path.split("/")
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, {name: handler})])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None)
