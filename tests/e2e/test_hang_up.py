"""A caller who leaves costs nothing: the engine is idle and every block free, whenever and wherever he leaves."""

import time

import grpc
import httpx
import pytest
from sluice.v1 import chat_pb2, chat_pb2_grpc, content_pb2, sampling_pb2

from tests.e2e.stack import Stack

LONG = "word " * 300


def endless(*, stream: bool) -> dict[str, object]:
    """A request that would run for the model's whole context."""
    return {
        "model": "sluice-demo", "stream": stream, "ignore_eos": True, "n": 4,
        "messages": [{"role": "user", "content": LONG}],
    }  # fmt: skip


def until_running(stack: Stack) -> None:
    deadline = time.monotonic() + 30
    while stack.metric("sluice_engine_sequences_running") == 0:
        assert time.monotonic() < deadline, "the request never ran"


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("door", ["gateway", "envoy"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_hang_up_frees_everything(stack: Stack, *, stream: bool, door: str, moment: str) -> None:
    """REST: before and after the first token, streamed and whole, at the gateway and through Envoy."""
    url = f"http://127.0.0.1:{stack.ports[door]}/v1/chat/completions"
    stack.until_idle()
    tokens = stack.metric("sluice_engine_generated_tokens_total")
    with httpx.Client() as client:
        if moment == "before":  # the body is out; nothing was read
            with pytest.raises(httpx.ReadTimeout):
                client.post(url, json=endless(stream=stream), timeout=httpx.Timeout(10, read=0.001))
        elif stream:
            with client.stream("POST", url, json=endless(stream=True), timeout=60) as answer:
                for line in answer.iter_lines():
                    if '"content"' in line:
                        break
        else:  # tokens were made, though none was sent
            with pytest.raises(httpx.ReadTimeout):
                client.post(url, json=endless(stream=False), timeout=httpx.Timeout(10, read=1.5))
            assert stack.metric("sluice_engine_generated_tokens_total") > tokens
    stack.until_idle()


@pytest.mark.parametrize("method", ["Chat", "StreamChat"])
@pytest.mark.parametrize("door", ["service", "envoy"])
def test_grpc_cancel_frees_everything(stack: Stack, method: str, door: str) -> None:
    """gRPC: a cancelled call, unary and streamed, at the service and through Envoy."""
    request = chat_pb2.ChatRequest(
        model="sluice-demo",
        messages=[content_pb2.Message(role=content_pb2.ROLE_USER, content=[content_pb2.ContentPart(text=LONG)])],
        stopping=sampling_pb2.StopParams(ignore_eos=True),
        n=4,
    )
    with grpc.insecure_channel(f"127.0.0.1:{stack.ports[door]}") as channel:
        stub = chat_pb2_grpc.ChatServiceStub(channel)
        if method == "Chat":
            call = stub.Chat.future(request)
            until_running(stack)
            call.cancel()
        else:
            stream = stub.StreamChat(request)
            next(e for e in stream if e.WhichOneof("event") == "content_delta")
            stream.cancel()
        stack.until_idle()


def test_grpc_deadline_frees_everything(stack: Stack) -> None:
    """The caller's deadline stops the generation, and the status says so."""
    request = chat_pb2.ChatRequest(
        model="sluice-demo",
        messages=[content_pb2.Message(role=content_pb2.ROLE_USER, content=[content_pb2.ContentPart(text=LONG)])],
        stopping=sampling_pb2.StopParams(ignore_eos=True),
    )
    with grpc.insecure_channel(f"127.0.0.1:{stack.ports['envoy']}") as channel:
        with pytest.raises(grpc.RpcError) as caught:
            chat_pb2_grpc.ChatServiceStub(channel).Chat(request, timeout=0.5)
        assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        stack.until_idle()
