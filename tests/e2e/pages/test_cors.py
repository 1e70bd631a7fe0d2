"""Web pages of other origins in a real browser: Envoy allows only the configured ones."""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from google.rpc import error_details_pb2, status_pb2
from sluice.v1 import chat_pb2, content_pb2

from tests.e2e.envoy_process import EnvoyProcess
from tests.e2e.pages.browser import command_of, observations
from tests.e2e.stack import Stack, free_ports
from tests.waiting import GUARD_S

QUESTION = "What is the capital of France?"
BODY = {
    "model": "sluice-demo",
    "temperature": 0,
    "messages": [{"role": "user", "content": QUESTION}],
}
REST = "/v1/chat/completions"
STREAM = "/sluice.v1.ChatService/StreamChat"
KEY = {"authorization": "Bearer unused", "x-request-id": "of-the-page", "x-stainless-lang": "js"}
GRPC_WEB = {**KEY, "content-type": "application/grpc-web+proto", "x-grpc-web": "1", "grpc-timeout": "60S"}
PREFLIGHT = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,content-type"}


class Page(http.server.BaseHTTPRequestHandler):
    """An empty page."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextlib.contextmanager
def page() -> Iterator[str]:
    """Serve an empty page and yield its origin."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    """The allowed origin."""
    with page() as origin:
        yield origin


@pytest.fixture(scope="module")
def envoy(stack: Stack, origin: str) -> Iterator[EnvoyProcess]:
    """Envoy in front of the product, with the origin allowed."""
    with EnvoyProcess(
        stack.ports["gateway"], stack.ports["service"], cors_origins=("https://chat.example.com", origin)
    ) as envoy:
        yield envoy


def framed(request: chat_pb2.ChatRequest) -> bytes:
    """Return a message in gRPC-web's framing."""
    content = request.SerializeToString()
    return b"\0" + len(content).to_bytes(4, "big") + content


def frames(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the frames of a gRPC-web response as (flags, content)."""
    while body:
        size = int.from_bytes(body[1:5], "big")
        yield body[0], body[5 : 5 + size]
        body = body[5 + size :]


def calls(envoy: str) -> list[dict[str, Any]]:
    """Return a stream and an invalid request, each over REST and gRPC-web."""
    chat = chat_pb2.ChatRequest(model="sluice-demo", sampling={"temperature": 0})
    chat.messages.add(role=content_pb2.ROLE_USER).content.add(text=QUESTION)
    json_headers = {**KEY, "content-type": "application/json"}
    made: list[tuple[str, dict[str, str], bytes]] = [
        (REST, json_headers, json.dumps({**BODY, "stream": True}).encode()),
        (STREAM, GRPC_WEB, framed(chat)),
        (REST, json_headers, json.dumps({**BODY, "n": 0}).encode()),
        (STREAM, GRPC_WEB, framed(chat_pb2.ChatRequest(model="sluice-demo"))),
    ]
    return [
        {"url": envoy + path, "method": "POST", "headers": headers, "body": base64.b64encode(body).decode()}
        for path, headers, body in made
    ]


def seen(page: str, envoy: str) -> list[dict[str, Any]]:
    """Return the results of the calls as a page's script sees them."""
    answers: list[dict[str, Any]] = observations(command_of("call_from_page.mjs", page), calls(envoy))
    for answer in answers:
        if "body" in answer:
            answer["body"] = base64.b64decode(answer["body"])
    return answers


@pytest.fixture(scope="module")
def answers(envoy: EnvoyProcess, origin: str) -> list[dict[str, Any]]:
    """The results that a page of the allowed origin sees."""
    return seen(origin, envoy.url)


@pytest.fixture(scope="module")
def whole(stack: Stack) -> str:
    """Return the greedy answer."""
    answer = httpx.post(stack.url + REST, json=BODY, timeout=GUARD_S).json()
    return str(answer["choices"][0]["message"]["content"])


def test_a_page_streams_over_rest(answers: list[dict[str, Any]], whole: str) -> None:
    """An allowed page may send a key and its own headers, and read the response headers."""
    answer = answers[0]
    lines = answer["body"].decode().split("\n\n")
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == whole
    assert (answer["status"], answer["headers"]["x-request-id"]) == (200, "of-the-page")


def test_a_page_streams_over_grpc_web(answers: list[dict[str, Any]], whole: str) -> None:
    """The messages contain the same text, followed by the status."""
    *messages, (flags, trailers) = frames(answers[1]["body"])
    events = [chat_pb2.StreamChatResponse.FromString(content) for _, content in messages]
    assert "".join(event.content_delta.text for event in events) == whole
    assert flags == 0x80
    assert b"grpc-status:0\r\n" in trailers


def test_a_page_reads_errors(answers: list[dict[str, Any]]) -> None:
    """An allowed page can read REST's error body, and gRPC-web's status with all its details in headers."""
    _, _, rest, grpc_web = answers
    assert (rest["status"], json.loads(rest["body"])["error"]["param"]) == (400, "n")
    headers = grpc_web["headers"]
    assert (headers["grpc-status"], headers["x-request-id"]) == ("3", "of-the-page")
    assert "messages" in headers["grpc-message"]
    details = headers["grpc-status-details-bin"]
    status = status_pb2.Status.FromString(base64.b64decode(details + "=" * (-len(details) % 4)))
    reason = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(reason)
    assert reason.reason == "INVALID_FIELD"


def test_a_page_of_another_origin_is_rejected(envoy: EnvoyProcess) -> None:
    """The browser sends only preflight requests of another origin's page."""
    with page() as other:
        assert seen(other, envoy.url) == [{"error": "TypeError: Failed to fetch"}] * 4


def test_no_origin_is_allowed_by_default(stack: Stack, origin: str) -> None:
    """Without the setting no response has CORS headers."""
    answer = httpx.options(stack.url + REST, headers={**PREFLIGHT, "origin": origin}, timeout=GUARD_S)
    assert [name for name in answer.headers if name.startswith("access-control-")] == []
    whole = httpx.get(f"{stack.url}/v1/models", headers={"origin": origin}, timeout=GUARD_S)
    assert (whole.status_code, "access-control-allow-origin" in whole.headers) == (200, False)


def test_envoy_answers_preflights_without_a_key(origin: str) -> None:
    """Preflights need no upstream, and an allowed page can read Envoy's own errors."""
    gateway_port, service_port = free_ports(2)
    with EnvoyProcess(gateway_port, service_port, cors_origins=(origin,), healthy=False) as envoy:
        for path in (REST, STREAM, "/serving-endpoints/m/invocations", "/v2/models/m/generate"):
            answer = httpx.options(envoy.url + path, headers={**PREFLIGHT, "origin": origin}, timeout=GUARD_S)
            assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, origin)
            assert "authorization" in answer.headers["access-control-allow-headers"]
            assert "access-control-allow-credentials" not in answer.headers  # keys are not cookies
            refused = httpx.post(envoy.url + path, json={}, headers={"origin": origin}, timeout=GUARD_S)
            assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (503, origin)
            other = httpx.options(envoy.url + path, headers={**PREFLIGHT, "origin": f"{origin}0"}, timeout=GUARD_S)
            assert "access-control-allow-origin" not in other.headers


def test_all_origins() -> None:
    """A star allows every origin, including that of a local file."""
    gateway_port, service_port = free_ports(2)
    with EnvoyProcess(gateway_port, service_port, cors_origins=("*",), healthy=False) as envoy:
        for origin in ("https://chat.example.com", "null"):
            answer = httpx.options(envoy.url + REST, headers={**PREFLIGHT, "origin": origin}, timeout=GUARD_S)
            assert answer.headers["access-control-allow-origin"] == origin
