"""Detection of calls to empty pools, from Envoy's counters."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from cluster.envoys import Callers, is_called
from runner.proxy.eds import Host
from tests.e2e.stack import free_ports


@contextmanager
def admin(counts: dict[str, int]) -> Iterator[Host]:
    """Serve Envoy's admin interface with these counts of calls to clusters without hosts."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            stats = [{"name": f"cluster.{name}.upstream_cx_none_healthy", "value": it} for name, it in counts.items()]
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"stats": stats}).encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the library's name
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield Host("127.0.0.1", server.server_port)
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.slow
def test_calls_since_the_previous_reading_are_counted() -> None:
    """Calls before the first reading don't count."""
    counts = {"service": 5, "large-affinity": 2}
    with admin(counts) as host:
        callers = Callers(host)
        assert callers.called() == frozenset()
        counts["large-affinity"] += 1
        called = callers.called()
        assert callers.called() == frozenset()
    assert is_called("large", called)
    assert not is_called("service", called)


def test_no_calls_are_detected_without_envoy() -> None:
    (port,) = free_ports(1)
    assert Callers(Host("127.0.0.1", port)).called() == frozenset()
