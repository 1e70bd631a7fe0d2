"""Says by its exit code whether a process serves: `healthcheck.py http URL` or `healthcheck.py grpc HOST:PORT`."""

from __future__ import annotations

import sys
import urllib.request

TIMEOUT_S = 3


def serves_http(url: str) -> bool:
    """Return True if the URL answers with a 2xx status."""
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:  # noqa: S310  the image's own URL
        return 200 <= answer.status < 300


def serves_grpc(target: str) -> bool:
    """Return True if grpc.health.v1 reports SERVING."""
    import grpc  # noqa: PLC0415  it takes longer than a request to a URL
    from grpc_health.v1 import health_pb2, health_pb2_grpc  # noqa: PLC0415

    with grpc.insecure_channel(target) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=TIMEOUT_S)
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


if __name__ == "__main__":
    try:
        serves = {"http": serves_http, "grpc": serves_grpc}[sys.argv[1]](sys.argv[2])
    except Exception as error:  # noqa: BLE001  any error means unhealthy
        sys.exit(f"{type(error).__name__}: {error}")
    sys.exit(0 if serves else "it does not serve")
