"""Envoy's health checks of the upstreams, its admin interface, and its errors."""

import subprocess

import grpc
import httpx
import pytest
from sluice.v1 import model_pb2, model_pb2_grpc

from tests.e2e.stack import Stack
from tests.waiting import GUARD_S, wait_until


def test_public_listener_serves_health_readiness_and_metrics(stack: Stack) -> None:
    """The public listener serves the gateway's health, readiness and metrics."""
    for path in ("healthz", "readyz", "metrics"):
        assert httpx.get(f"{stack.url}/{path}", timeout=GUARD_S).status_code == 200


def test_admin_listens_on_loopback_only(stack: Stack) -> None:
    """Envoy's admin interface is reachable locally and bound to 127.0.0.1."""
    listening = httpx.get(
        f"http://127.0.0.1:{stack.ports['envoy_admin']}/config_dump?resource=&mask=bootstrap", timeout=GUARD_S
    ).text
    assert '"address": "127.0.0.1"' in listening
    assert "0.0.0.0" not in listening  # noqa: S104 the address that must not be there


def test_unknown_route_and_method(stack: Stack) -> None:
    """An unknown path is 404 and an unknown gRPC method UNIMPLEMENTED, through Envoy."""
    assert httpx.get(f"{stack.url}/v1/nothing", timeout=GUARD_S).status_code == 404
    with grpc.insecure_channel(f"127.0.0.1:{stack.ports['envoy']}") as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/sluice.v1.ModelService/Nothing")
        with pytest.raises(grpc.RpcError) as caught:
            call(b"", timeout=GUARD_S)
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_clusters_are_health_checked(stack: Stack) -> None:
    """The hosts of both clusters are healthy, by gRPC health and by /healthz."""

    def healthy() -> set[str]:
        page = httpx.get(f"http://127.0.0.1:{stack.ports['envoy_admin']}/clusters", timeout=GUARD_S).text
        return {line.split("::")[0] for line in page.splitlines() if line.endswith("::health_flags::healthy")}

    wait_until(lambda: {"service", "gateway"} <= healthy(), healthy)
    with grpc.insecure_channel(f"127.0.0.1:{stack.ports['envoy']}") as channel:
        model_pb2_grpc.ModelServiceStub(channel).ListModels(model_pb2.ListModelsRequest(), timeout=GUARD_S)


def test_service_enforces_the_clients_deadline(stack: Stack) -> None:
    """The service enforces a deadline that the client only declares."""
    command = [
        "curl",
        "--silent",
        "--show-error",
        "--max-time",
        f"{GUARD_S:g}",
        "--http2-prior-knowledge",
        "--dump-header",
        "-",
    ]
    command += ["-H", "content-type: application/grpc", "-H", "te: trailers", "-H", "grpc-timeout: 200m"]
    command += ["--output", "/dev/null", "--data-binary", "@-", f"{stack.url}/grpc.health.v1.Health/Watch"]
    done = subprocess.run(command, input=b"\0\0\0\0\0", capture_output=True, check=False, timeout=GUARD_S)
    assert done.returncode == 0, done.stderr
    assert f"grpc-status: {grpc.StatusCode.DEADLINE_EXCEEDED.value[0]}".encode() in done.stdout
