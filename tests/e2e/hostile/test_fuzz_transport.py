"""No framing, size or timing of requests causes a fault: large and unfinished bodies, and floods with deadlines."""

from __future__ import annotations

import contextlib
import os
import socket
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sluice.v1 import chat_pb2, chat_pb2_grpc

from tests.e2e.connections import CHAT
from tests.e2e.stack import Stack
from tests.waiting import GUARD_S

NUM_EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "6"))
PATHS = ["/v1/chat/completions", "/v1/embeddings", "/tokenize", "/v1/messages", "/v2/models/sluice-demo/generate"]
LOOKUPS = {"/tokenize"}
SIZES = st.sampled_from([0, 1, 4096, 65_535, 65_536, 65_537, 200_000, 1_000_000]) | st.integers(0, 100_000)
quietly = settings(
    max_examples=NUM_EXAMPLES,
    deadline=None,
    derandomize="FUZZ_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def is_served(stack: Stack) -> bool:
    """Return True if a usual request is answered."""
    return httpx.post(stack.url + PATHS[0], json=CHAT, timeout=GUARD_S).status_code == 200


@pytest.mark.parametrize("path", PATHS)
def test_large_bodies_cause_no_server_error(stack: Stack, path: str) -> None:
    """A body of any size, whole or in chunks, JSON or not, gets no 5xx; a lookup may exceed its deadline of seconds."""

    @quietly
    @given(st.lists(SIZES, max_size=4), st.booleans(), st.booleans())
    def try_one(sizes: list[int], is_json: bool, is_chunked: bool) -> None:  # noqa: FBT001  hypothesis' arguments
        pieces = [b"a " * (size // 2) for size in sizes]
        if is_json:
            pieces = [b'{"model": "sluice-demo", "prompt": "', *pieces, b'"}']

        def parts() -> Iterator[bytes]:
            yield from pieces

        content = parts() if is_chunked else b"".join(pieces)
        headers = {"content-type": "application/json"}
        answer = httpx.post(stack.url + path, content=content, headers=headers, timeout=GUARD_S)
        is_late = path in LOOKUPS and answer.status_code == 504
        assert answer.status_code < 500 or is_late, (answer.text, sizes, is_json, is_chunked)

    try_one()


def test_incomplete_requests_cause_no_server_error(stack: Stack) -> None:
    """Requests that end anywhere, with a false length or broken chunks, harm no later one."""
    kinds = ["application/json", "application/grpc", "application/grpc-web+proto", "text/plain"]
    bodies = st.binary(max_size=200) | SIZES.map(lambda size: b"x" * size)

    @quietly
    @given(
        st.sampled_from([*PATHS, "/sluice.v1.ChatService/Chat"]),
        st.sampled_from(kinds),
        bodies,
        st.integers(-5, 70_000),
    )
    def try_one(path: str, kind: str, body: bytes, missing: int) -> None:
        is_chunked = missing < 0
        length = "transfer-encoding: chunked" if is_chunked else f"content-length: {len(body) + missing}"
        head = f"POST {path} HTTP/1.1\r\nhost: a\r\ncontent-type: {kind}\r\n{length}\r\n\r\n".encode()
        chunk = b"%x\r\n" % (len(body) + missing + 5) if is_chunked else b""
        with socket.create_connection(("127.0.0.1", stack.ports["envoy"])) as connection:
            with contextlib.suppress(ConnectionError):
                connection.sendall(head + chunk + body)
                connection.shutdown(socket.SHUT_WR)
            connection.settimeout(GUARD_S)
            with contextlib.suppress(ConnectionError):
                answer = connection.recv(1 << 16)
                assert not answer.startswith(b"HTTP/1.1 5"), answer
        assert is_served(stack)

    try_one()


def test_floods_with_deadlines_cause_no_server_error(stack: Stack) -> None:
    """Of many calls with any deadlines and lengths, each is served, rejected or late, and all blocks are free after."""
    call = st.tuples(
        st.sampled_from([0.001, 0.02, 0.2, GUARD_S]), st.integers(0, 3), st.integers(1, 40), st.integers(1, 4)
    )

    @quietly
    @given(st.lists(call, min_size=1, max_size=120))
    def try_one(calls: list[tuple[float, int, int, int]]) -> None:
        with grpc.insecure_channel(f"127.0.0.1:{stack.ports['envoy']}") as channel:
            stub = chat_pb2_grpc.ChatServiceStub(channel)
            futures: list[Any] = []
            for timeout_s, priority, max_tokens, n in calls:
                request = chat_pb2.ChatRequest(model="sluice-demo", n=n)
                request.messages.add(role="ROLE_USER").content.add(text="Hello!")
                request.stopping.max_tokens, request.serving.priority = max_tokens, priority
                futures.append(stub.Chat.future(request, timeout=timeout_s))
            with ThreadPoolExecutor(16) as pool:
                codes = Counter(pool.map(lambda each: each.code().name, futures))
        assert set(codes) <= {"OK", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "CANCELLED"}, codes
        stack.until_idle()

    try_one()


@pytest.mark.parametrize(
    "name", ["x-ratelimit", "x-sluice-upload", "x-sluice-timeout", "x-sluice-limit", "x-sluice-auth"]
)
def test_any_text_in_internal_headers_causes_no_server_error(stack: Stack, name: str) -> None:
    """Clients may send any text in the headers that gateway, Envoy and service exchange."""

    @quietly
    @given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60))
    def try_one(value: str) -> None:
        answer = httpx.post(stack.url + PATHS[0], json=CHAT, headers={name: value.strip()}, timeout=GUARD_S)
        assert answer.status_code < 500, (answer.text, value)

    try_one()
