"""Envoy's own error responses, log lines and readiness."""

import contextlib
import http.client
import json
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from sluice.v1 import chat_pb2_grpc, token_pb2, token_pb2_grpc

from gateway.dialects.seam.error_response import ErrorResponse
from gateway.dialects.seam.failure import Failure, Reason
from gateway.routes.dialects.surfaces import SURFACES
from gateway.routes.surface.surface import SurfaceMap
from tests.e2e.answers.test_chat import grpc_request, long_request
from tests.e2e.collector import Collector
from tests.e2e.envoy_process import EnvoyProcess
from tests.e2e.stack import Stack, free_ports
from tests.waiting import GUARD_S

PATHS = [
    "/v1/chat/completions",
    "/v1/messages?beta=true",
    "/v1/messages?beta=true",
    "/openai/deployments/sluice-demo/chat/completions?api-version=2024-10-21",
    "/chat/completions?api-version=2024-05-01-preview",
    "/serving-endpoints/sluice-demo/invocations",
    "/api/2.0/serving-endpoints",
    "/v2/chat",
    "/v2/embed?a=b",
    "/api/chat?a=b",
    "/v2/models/sluice-demo/generate",
    "/v2/repository/models/sluice-demo/load",
    "/v2/rerank",
    "/score",
    "/nothing/of/ours",
]
TOO_LARGE = b"x" * (22 << 20)
EMPTY_FRAME = bytes(5)


@pytest.fixture(scope="module")
def envoy_without_upstreams() -> Iterator[EnvoyProcess]:
    """An Envoy without upstreams."""
    with EnvoyProcess(free_ports(1)[0], free_ports(1)[0], healthy=False) as envoy:
        yield envoy


def gateway_response(path: str, answer: httpx.Response, failure: Failure) -> ErrorResponse:
    """Return the gateway's error response to the request."""
    state = {"request_id": answer.headers["x-request-id"]}
    scope = {"type": "http", "path": path.partition("?")[0], "headers": [], "state": state}
    return SurfaceMap(SURFACES).error_response(scope, failure)


def metadata(count: int, size: int) -> list[tuple[str, str]]:
    return [(f"x-entry-{number}", "v" * size) for number in range(count)]


def health(target: str, entries: list[tuple[str, str]] | None = None) -> str:
    """Return the status name of a health check."""
    with grpc.insecure_channel(target) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)  # it ships no types
        try:
            stub.Check(health_pb2.HealthCheckRequest(), timeout=GUARD_S, metadata=entries)
        except grpc.RpcError as error:
            return str(error.code().name)
        return "OK"


def with_id(body: bytes, answer: httpx.Response) -> dict[str, Any]:
    """Return a body with the response's request id, if its dialect has a field for it."""
    expected: dict[str, Any] = json.loads(body)
    return expected | ({"request_id": answer.headers["x-request-id"]} if "request_id" in expected else {})


@pytest.mark.parametrize("path", PATHS)
def test_envoys_errors_have_the_format_of_the_dialect(envoy_without_upstreams: EnvoyProcess, path: str) -> None:
    """Envoy's 503 has the body and headers of the gateway's, and Retry-After."""
    answer = httpx.post(envoy_without_upstreams.url + path, json={}, timeout=GUARD_S)
    expected = gateway_response(path, answer, Failure(Reason.UNAVAILABLE, "the service is not available"))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == with_id(expected.body, answer)
    assert [answer.headers[name.decode()] for name, _ in expected.headers] == [v.decode() for _, v in expected.headers]


def test_each_surface_has_a_tested_path() -> None:
    """Every surface has a path in this test."""
    tried = [path.partition("?")[0] for path in PATHS]
    surfaces = [surface for surface in SURFACES if surface.prefixes]
    assert all(any(path.startswith(tuple(surface.prefixes)) for path in tried) for surface in surfaces)


@pytest.mark.parametrize("path", [path for path in PATHS if path != "/nothing/of/ours"])
def test_body_above_the_limit_gets_413_before_it_is_complete(stack: Stack, path: str) -> None:
    """The gateway's 413 for a body that Envoy doesn't buffer reaches the client before the body is complete."""
    headers = {"content-type": "application/json"}
    answer = httpx.post(stack.url + path, content=TOO_LARGE, headers=headers, timeout=GUARD_S)
    text = "the body exceeds the limit of 16777216 bytes"
    expected = gateway_response(path, answer, Failure(Reason.BODY_TOO_LARGE, text))
    assert answer.status_code == 413
    assert answer.json() == with_id(expected.body, answer)


@pytest.mark.parametrize("content_type", ["application/json", "application/grpc-web+proto", ""])
def test_two_hosts_are_rejected(stack: Stack, content_type: str) -> None:
    """Envoy joins the hosts of a request over HTTP/1, and neither gateway nor service receives it."""
    opened = http.client.HTTPConnection("127.0.0.1", stack.ports["envoy"], timeout=GUARD_S)
    with contextlib.closing(opened) as connection:
        connection.putrequest("POST", "/v1/models", skip_host=True)
        headers = [("host", "127.0.0.1:80"), ("host", "other.example"), ("content-type", content_type)]
        for name, value in [*headers, ("content-length", "0")]:
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 400
        if "grpc" in content_type:
            assert answer.headers["grpc-message"] == "the request is invalid"
        else:
            assert json.loads(body)["error"]["message"] == "the request is invalid"


def test_grpc_clients_may_name_several_addresses(stack: Stack) -> None:
    """Their authority is the whole list, which isn't taken for two hosts."""
    address = f"127.0.0.1:{stack.ports['envoy']}"
    assert health(f"ipv4:{address},{address}") == "OK"


def test_envoys_grpc_errors_have_a_status_with_details(stack: Stack, envoy_without_upstreams: EnvoyProcess) -> None:
    """A missing upstream is UNAVAILABLE and too large a message RESOURCE_EXHAUSTED, with readable details."""
    with grpc.insecure_channel(envoy_without_upstreams.target) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)  # it ships no types
        with pytest.raises(grpc.RpcError) as caught:
            stub.Check(health_pb2.HealthCheckRequest(), timeout=GUARD_S)
        assert (caught.value.code(), caught.value.details()) == (
            grpc.StatusCode.UNAVAILABLE,
            "the service is not available",
        )
    with grpc.insecure_channel(f"127.0.0.1:{stack.ports['envoy']}") as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/sluice.v1.ModelService/ListModels")
        with pytest.raises(grpc.RpcError) as caught:
            call(TOO_LARGE, timeout=GUARD_S)
        assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_large_metadata_is_rejected_with_a_status(stack: Stack) -> None:
    """Metadata above a limit ends a call with RESOURCE_EXHAUSTED instead of a reset stream."""
    target = f"127.0.0.1:{stack.ports['envoy']}"
    assert [
        health(target, metadata(count, size)) for count, size in ((300, 10), (2000, 1), (1, 50_000), (30, 3000))
    ] == [
        "OK",
        *["RESOURCE_EXHAUSTED"] * 3,
    ]
    assert {health(target, metadata(1, 15_000)) for _ in range(20)} == {"OK"}  # every time


def test_expired_deadlines_have_their_status(stack: Stack) -> None:
    """A short deadline ends a stream with DEADLINE_EXCEEDED and no other status."""
    own = [("grpc.use_local_subchannel_pool", 1)]  # Envoy closes a connection with many cancelled calls
    with grpc.insecure_channel(f"127.0.0.1:{stack.ports['envoy']}", own) as channel:
        stub = chat_pb2_grpc.ChatServiceStub(channel)
        requests = grpc_request(), long_request()

        def ask(number: int) -> str:
            try:
                list(stub.StreamChat(requests[number % 2], timeout=0.003 + number * 0.0005))
            except grpc.RpcError as error:
                return str(error.code().name)
            return "OK"

        with ThreadPoolExecutor(4) as pool:
            ends = list(pool.map(ask, range(200)))
    assert set(ends[::2]) <= {"OK", "DEADLINE_EXCEEDED"}, ends
    assert set(ends[1::2]) == {"DEADLINE_EXCEEDED"}, ends


@pytest.mark.parametrize("method", ["Chat", "CountTokens", "TokenizeText"])
def test_a_deadline_during_preparation_has_its_status(stack: Stack, method: str) -> None:
    """A deadline that expires during the preparation of the prompt ends the call with DEADLINE_EXCEEDED."""
    chat = grpc_request()
    requests = {
        "Chat": chat,
        "CountTokens": token_pb2.CountTokensRequest(chat=chat),
        "TokenizeText": token_pb2.TokenizeTextRequest(model=chat.model, text="One, two. " * 2000),
    }
    own = [("grpc.use_local_subchannel_pool", 1)]  # Envoy closes a connection with many cancelled calls
    with grpc.insecure_channel(f"127.0.0.1:{stack.ports['envoy']}", own) as channel:
        chats, tokens = chat_pb2_grpc.ChatServiceStub(channel), token_pb2_grpc.TokenServiceStub(channel)
        call: Any = getattr(chats if method == "Chat" else tokens, method)
        call(requests[method], timeout=GUARD_S)
        begin = time.monotonic()
        call(requests[method], timeout=GUARD_S)
        whole_s = time.monotonic() - begin

        def ask(number: int) -> str:
            try:
                call(requests[method], timeout=whole_s * (number % 15 + 1) / 15)
            except grpc.RpcError as error:
                return str(error.code().name)
            return "OK"

        with ThreadPoolExecutor(4) as pool:
            ends = Counter(pool.map(ask, range(150)))
    assert set(ends) <= {"OK", "DEADLINE_EXCEEDED"}, ends
    assert ends["DEADLINE_EXCEEDED"] > 0


def test_readyz_requires_upstreams_for_rest_and_grpc(stack: Stack) -> None:
    """/readyz is 503 while Envoy has no upstream for gRPC, although the gateway is ready, and 200 otherwise."""
    assert httpx.get(f"{stack.url}/readyz", timeout=GUARD_S).json() == {"status": "ready"}
    with EnvoyProcess(stack.ports["gateway"], free_ports(1)[0], healthy=False) as envoy:
        envoy.until_healthy("gateway")
        assert httpx.get(f"{stack.gateway}/readyz", timeout=GUARD_S).status_code == 200
        answer = httpx.get(f"{envoy.url}/readyz", timeout=GUARD_S)
        assert (answer.status_code, answer.json()["status"]) == (503, "unready")
        assert health(envoy.target) == "UNAVAILABLE"
        assert httpx.get(f"{envoy.url}/healthz", timeout=GUARD_S).status_code == 200


@pytest.mark.parametrize("path", ["/v1/models", "/v1/nothing"])
def test_logs_and_spans_have_no_query(stack: Stack, collector: Collector, path: str) -> None:
    """A key in the query string is in no log line and on no span."""
    trace_id = uuid.uuid4().hex
    httpx.get(
        f"{stack.url}{path}?api-key=tulip-key",
        headers={"traceparent": f"00-{trace_id}-b7ad6b7169203331-01"},
        timeout=GUARD_S,
    )
    stack.wait_for("envoy", trace_id)
    stack.wait_for("gateway", trace_id)
    assert "tulip-key" not in stack.output
    num_spans = 4 if path == "/v1/models" else 2
    spans = collector.trace(trace_id, num_spans)
    assert not [span for span in spans if "tulip-key" in str(span.attributes) + span.name]


@pytest.mark.parametrize("request_id", ["order 17", "not-a-uuid", "8b2c7bb8-3f0d-4c1e-9d4a-0e0f7f2d6d11"])
@pytest.mark.parametrize("sampled", [True, False])
def test_request_id_of_the_client_is_kept_by_envoy(
    stack: Stack, collector: Collector, request_id: str, *, sampled: bool
) -> None:
    """The response and Envoy's log line have the client's request id, and there is a trace."""
    headers = {"x-request-id": request_id}
    trace_id = uuid.uuid4().hex
    if sampled:
        headers["traceparent"] = f"00-{trace_id}-b7ad6b7169203331-01"
    answer = httpx.get(f"{stack.url}/v1/models", headers=headers, timeout=GUARD_S)
    assert answer.headers["x-request-id"] == request_id
    stack.wait_for("envoy", f'"request_id":"{request_id}"')
    if not sampled:
        lines = [
            line for line in stack.output.splitlines() if f'"request_id":"{request_id}"' in line and "envoy" in line
        ]
        trace_id = json.loads(lines[-1].partition("|")[2])["trace_id"]
    assert {span.service for span in collector.trace(trace_id, 4)} >= {"sluice-envoy", "sluice-gateway"}


@pytest.mark.parametrize(
    ("method", "status"), [("ModelService/ListModels", "OK"), ("ModelService/GetModel", "InvalidArgument")]
)
@pytest.mark.parametrize("content_type", ["application/grpc-web+proto", "application/grpc-web-text"])
def test_grpc_web_is_logged_by_its_status(stack: Stack, content_type: str, method: str, status: str) -> None:
    """The log line of a gRPC-web call has the status in its trailers."""
    request_id = f"{content_type} {method}"
    body = EMPTY_FRAME if content_type.endswith("proto") else b"AAAAAAA="
    headers = {"content-type": content_type, "x-request-id": request_id}
    httpx.post(f"{stack.url}/sluice.v1.{method}", content=body, headers=headers, timeout=GUARD_S).raise_for_status()
    stack.wait_for("envoy", f'"request_id":"{request_id}"', f'"grpc_status":"{status}"')
