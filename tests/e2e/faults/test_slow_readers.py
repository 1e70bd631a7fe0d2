"""Clients that stop reading are disconnected after `send_stall_timeout_s`, and everything they held is freed.

One concurrent call is allowed, so each test also shows that the previous call has freed its slot while its client is
still connected.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from sluice.v1 import chat_pb2, chat_pb2_grpc, content_pb2, token_pb2

from tests.e2e.envoy.http2 import NO_WINDOW, TOKENIZE, begun_calls
from tests.e2e.stack import GENERATOR, Stack
from tests.waiting import GUARD_S, wait_until

NUM_CHOICES, NUM_TOKENS, TOP_LOGPROBS = 64, 1000, 20  # many times the size of all buffers in between
NUM_TOKENS_WHOLE = 650
SETTINGS = {
    "SLUICE_SERVICE_SEND_STALL_TIMEOUT_S": "1",
    "SLUICE_GATEWAY_SEND_STALL_TIMEOUT_S": "1",
    "SLUICE_SERVICE_MAX_CONCURRENT_CALLS": "1",
}


@pytest.fixture(scope="module")
def impatient() -> Iterator[Stack]:
    """The product with short timeouts for clients that do not read."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SETTINGS.items():
            patch.setenv(name, value)
        stack = Stack(GENERATOR)
    try:
        stack.wait_for("sluice is ready.")
        yield stack
    finally:
        assert stack.stop() == 0, stack.output


def stopped_reader(port: int, **fields: Any) -> socket.socket:
    """Return a connection that has sent a request, read the start of the response, and reads no more."""
    body = {
        "model": "sluice-demo",
        "messages": [{"role": "user", "content": "Tell me a story."}],
        "n": NUM_CHOICES,
        "max_tokens": NUM_TOKENS,
        "ignore_eos": True,
        "logprobs": True,
        "top_logprobs": TOP_LOGPROBS,
        **fields,
    }
    data = json.dumps(body).encode()
    reader = socket.create_connection(("127.0.0.1", port), timeout=GUARD_S)
    head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    reader.sendall(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)
    assert reader.recv(15) == b"HTTP/1.1 200 OK"
    return reader


def rest_of(reader: socket.socket) -> bytes:
    """Return the remaining data, up to the end or a reset of the connection."""
    pieces = []
    try:
        while piece := reader.recv(1 << 20):
            pieces.append(piece)
    except ConnectionResetError:
        pass
    return b"".join(pieces)


def num_cut_off(stack: Stack) -> int:
    """Return the number of the gateway's requests that ended because the client did not read."""
    return sum('"status":499' in line for line in stack.output.splitlines() if line.startswith("gateway"))


def num_generated(stack: Stack) -> float:
    return stack.metric("sluice_engine_generated_tokens_total")


@pytest.mark.parametrize("listener", ["envoy", "gateway"])
def test_rest_stream_of_a_client_that_does_not_read_is_closed(impatient: Stack, listener: str) -> None:
    before = num_cut_off(impatient)
    with stopped_reader(impatient.ports[listener], stream=True) as reader:
        wait_until(lambda: num_cut_off(impatient) > before)
        impatient.until_idle()
        assert b"[DONE]" not in rest_of(reader)


@pytest.mark.parametrize("listener", ["envoy", pytest.param("gateway", marks=pytest.mark.long)])
def test_unstreamed_answer_of_a_client_that_does_not_read_is_discarded(impatient: Stack, listener: str) -> None:
    """An unstreamed answer is discarded if the client does not read it.

    Its 60 MB exceed the buffers, since newer kernels let the buffers of a socket grow to 33 MB.
    """
    before = num_cut_off(impatient)
    with stopped_reader(impatient.ports[listener], max_tokens=NUM_TOKENS_WHOLE) as reader:
        wait_until(lambda: num_cut_off(impatient) > before)
        assert b'"usage"' not in rest_of(reader)


@pytest.mark.parametrize("listener", ["envoy", pytest.param("service", marks=pytest.mark.long)])
def test_grpc_stream_of_a_client_that_does_not_read_ends_with_a_status(impatient: Stack, listener: str) -> None:
    message = chat_pb2.ChatRequest(model="sluice-demo", n=NUM_CHOICES)
    message.messages.add(role=content_pb2.ROLE_USER).content.add(text="Tell me a story.")
    message.logprobs.top_logprobs = TOP_LOGPROBS
    message.stopping.max_tokens, message.stopping.ignore_eos = NUM_TOKENS, True
    with grpc.insecure_channel(f"127.0.0.1:{impatient.ports[listener]}") as channel:
        before = num_generated(impatient)
        call = chat_pb2_grpc.ChatServiceStub(channel).StreamChat(message)
        next(call)
        wait_until(lambda: num_generated(impatient) > before)
        impatient.until_idle()
        with pytest.raises(grpc.RpcError) as caught:
            for _ in call:
                pass
        assert caught.value.code() is grpc.StatusCode.CANCELLED
        assert caught.value.details() == "nothing of the response was read for 1 s"


def test_single_response_of_a_client_that_does_not_read_is_discarded(impatient: Stack) -> None:
    """GRPC would hold it for as long as its client is connected."""
    message = token_pb2.TokenizeTextRequest(
        model="sluice-demo", text="a b " * 12_000
    )  # in one window; the answer isn't
    with socket.create_connection(("127.0.0.1", impatient.ports["service"])) as reader:
        reader.sendall(begun_calls(1, TOKENIZE, message.SerializeToString(), preface=NO_WINDOW))
        wait_until(
            lambda: any("TokenizeText" in line and "CANCELLED" in line for line in impatient.output.splitlines())
        )
