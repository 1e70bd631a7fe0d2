"""Web pages of other origins: those that Envoy is told of may call, in a real browser; others may not."""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from google.rpc import error_details_pb2, status_pb2
from sluice.v1 import chat_pb2, content_pb2

from tests.e2e.door import Door
from tests.e2e.stack import ROOT, Stack, free_ports

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
        """Say nothing."""


@contextlib.contextmanager
def page() -> Iterator[str]:
    """A page's origin."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    """The one that may call."""
    with page() as origin:
        yield origin


@pytest.fixture(scope="module")
def door(stack: Stack, origin: str) -> Iterator[Door]:
    """Envoy in front of the product, for pages of that origin."""
    with Door(
        stack.ports["gateway"], stack.ports["service"], cors_origins=("https://chat.example.com", origin)
    ) as door:
        yield door


def framed(request: chat_pb2.ChatRequest) -> bytes:
    """A message of gRPC-web."""
    content = request.SerializeToString()
    return b"\0" + len(content).to_bytes(4, "big") + content


def frames(body: bytes) -> Iterator[tuple[int, bytes]]:
    """The frames of gRPC-web in an answer: (flags, content)."""
    while body:
        size = int.from_bytes(body[1:5], "big")
        yield body[0], body[5 : 5 + size]
        body = body[5 + size :]


def calls(door: str) -> list[dict[str, Any]]:
    """A stream over REST, one over gRPC-web, and a refusal of each."""
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
        {"url": door + path, "method": "POST", "headers": headers, "body": base64.b64encode(body).decode()}
        for path, headers, body in made
    ]


def seen(page: str, door: str) -> list[dict[str, Any]]:
    """What a page's script sees of each of the calls."""
    browser = shutil.which("chromium-headless-shell")
    assert browser is not None, "make test installs it"
    command = ["node", "tests/e2e/pages/call_from_page.mjs", page, browser, str(ROOT / ".cache/npm/node_modules")]
    done = subprocess.run(
        command, cwd=ROOT, input=json.dumps(calls(door)), capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    for answer in answers:
        if "body" in answer:
            answer["body"] = base64.b64decode(answer["body"])
    return answers


@pytest.fixture(scope="module")
def answers(door: Door, origin: str) -> list[dict[str, Any]]:
    """What a page of the listed origin sees."""
    return seen(origin, door.url)


@pytest.fixture(scope="module")
def whole(stack: Stack) -> str:
    """The greedy answer."""
    answer = httpx.post(stack.door + REST, json=BODY, timeout=60).json()
    return str(answer["choices"][0]["message"]["content"])


def test_a_page_streams_over_rest(answers: list[dict[str, Any]], whole: str) -> None:
    """With a key and headers of its own, and it can read the answer's headers."""
    answer = answers[0]
    lines = answer["body"].decode().split("\n\n")
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == whole
    assert (answer["status"], answer["headers"]["x-request-id"]) == (200, "of-the-page")


def test_a_page_streams_over_grpc_web(answers: list[dict[str, Any]], whole: str) -> None:
    """The same text in messages, and the status behind them."""
    *messages, (flags, trailers) = frames(answers[1]["body"])
    events = [chat_pb2.StreamChatResponse.FromString(content) for _, content in messages]
    assert "".join(event.content_delta.text for event in events) == whole
    assert flags == 0x80
    assert b"grpc-status:0\r\n" in trailers


def test_a_page_reads_refusals(answers: list[dict[str, Any]]) -> None:
    """REST's status and body, and gRPC-web's status with all its details, which then are headers."""
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


def test_a_page_of_another_origin_is_refused(door: Door) -> None:
    """Its browser sends nothing but preflights."""
    with page() as other:
        assert seen(other, door.url) == [{"error": "TypeError: Failed to fetch"}] * 4


def test_without_a_setting_every_page_is_refused(stack: Stack, origin: str) -> None:
    """By default nothing is allowed, whatever is asked for."""
    answer = httpx.options(stack.door + REST, headers={**PREFLIGHT, "origin": origin}, timeout=60)
    assert [name for name in answer.headers if name.startswith("access-control-")] == []
    whole = httpx.get(f"{stack.door}/v1/models", headers={"origin": origin}, timeout=60)
    assert (whole.status_code, "access-control-allow-origin" in whole.headers) == (200, False)


def test_a_preflight_is_envoys_and_needs_no_key(origin: str) -> None:
    """It is answered though nothing stands behind, and a page can read what Envoy refuses itself."""
    gateway_port, service_port = free_ports(2)
    with Door(gateway_port, service_port, cors_origins=(origin,), healthy=False) as door:
        for path in (REST, STREAM, "/serving-endpoints/m/invocations", "/v2/models/m/generate"):
            answer = httpx.options(door.url + path, headers={**PREFLIGHT, "origin": origin}, timeout=60)
            assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, origin)
            assert "authorization" in answer.headers["access-control-allow-headers"]
            assert "access-control-allow-credentials" not in answer.headers  # keys are no cookies
            refused = httpx.post(door.url + path, json={}, headers={"origin": origin}, timeout=60)
            assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (503, origin)
            other = httpx.options(door.url + path, headers={**PREFLIGHT, "origin": f"{origin}0"}, timeout=60)
            assert "access-control-allow-origin" not in other.headers


def test_all_origins() -> None:
    """A star lets every page call, also one that was opened from a file."""
    gateway_port, service_port = free_ports(2)
    with Door(gateway_port, service_port, cors_origins=("*",), healthy=False) as door:
        for origin in ("https://chat.example.com", "null"):
            answer = httpx.options(door.url + REST, headers={**PREFLIGHT, "origin": origin}, timeout=60)
            assert answer.headers["access-control-allow-origin"] == origin
