"""A caller who leaves costs nothing: the engine is idle and every block free, whenever and wherever he leaves."""

import time
from typing import Any

import grpc
import httpx
import pytest
from google.protobuf.message import Message
from sluice.v1 import (
    chat_pb2,
    chat_pb2_grpc,
    completion_pb2,
    completion_pb2_grpc,
    content_pb2,
    embedding_pb2,
    embedding_pb2_grpc,
    prompt_pb2,
    response_item_pb2,
    response_pb2,
    response_pb2_grpc,
    sampling_pb2,
    text_generation_pb2,
    text_generation_pb2_grpc,
)

from tests.e2e.stack import Stack

LONG = "word " * 300
ENDLESS = sampling_pb2.StopParams(ignore_eos=True)
ENDS = (0, 2)  # the tokens that end a text of the demo model


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


LONG_CHAT = chat_pb2.ChatRequest(
    model="sluice-demo",
    messages=[content_pb2.Message(role=content_pb2.ROLE_USER, content=[content_pb2.ContentPart(text=LONG)])],
    stopping=ENDLESS,
    n=4,
)
STREAMS: dict[str, tuple[type, Message]] = {
    "Chat": (chat_pb2_grpc.ChatServiceStub, LONG_CHAT),
    "Complete": (
        completion_pb2_grpc.CompletionServiceStub,
        completion_pb2.CompleteRequest(
            model="sluice-demo", prompts=[prompt_pb2.Prompt(text=LONG)] * 3, stopping=ENDLESS, n=2
        ),
    ),
    "GenerateText": (
        text_generation_pb2_grpc.TextGenerationServiceStub,
        text_generation_pb2.GenerateTextRequest(
            model="sluice-demo",
            text_input=LONG,
            stopping=sampling_pb2.StopParams(ignore_eos=True, max_tokens=2000),
        ),
    ),
    "CreateResponse": (
        response_pb2_grpc.ResponseServiceStub,
        response_pb2.CreateResponseRequest(
            model="sluice-demo",
            input=[
                response_item_pb2.InputItem(
                    message=response_item_pb2.InputMessage(
                        role=content_pb2.ROLE_USER, content=[content_pb2.ContentPart(text=LONG)]
                    )
                )
            ],
            sampling=sampling_pb2.SamplingParams(logit_bias=dict.fromkeys(ENDS, -100.0)),
        ),
    ),
}
TWINS = {"CreateResponse": "StreamResponse"}


def is_text(event: Any) -> bool:
    """Whether a stream's event has something that the model wrote."""
    return str(event.WhichOneof("event")).endswith("delta")


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("method", STREAMS)
@pytest.mark.parametrize("door", ["service", "envoy"])
def test_grpc_cancel_frees_everything(stack: Stack, method: str, door: str, moment: str, *, streamed: bool) -> None:
    """gRPC: a cancelled call of every generating method, at once and after the first token, there and through Envoy."""
    kind, request = STREAMS[method]
    stack.until_idle()
    with grpc.insecure_channel(f"127.0.0.1:{stack.ports[door]}") as channel:
        if streamed:
            events = getattr(kind(channel), TWINS.get(method, f"Stream{method}"))(request)
            if moment == "after":
                next(event for event in events if is_text(event))
            events.cancel()
        else:
            call = getattr(kind(channel), method).future(request)
            if moment == "after":
                until_running(stack)
            call.cancel()
        stack.until_idle()


def test_grpc_deadline_frees_everything(stack: Stack) -> None:
    """The caller's deadline stops the generation, and the status says so."""
    with grpc.insecure_channel(f"127.0.0.1:{stack.ports['envoy']}") as channel:
        with pytest.raises(grpc.RpcError) as caught:
            chat_pb2_grpc.ChatServiceStub(channel).Chat(LONG_CHAT, timeout=0.5)
        assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        stack.until_idle()


def test_grpc_embeddings_stop_when_their_caller_leaves(stack: Stack) -> None:
    """Texts whose caller left before their turn are never computed."""
    texts = [prompt_pb2.Prompt(text=f"{index} {LONG[:1000]}") for index in range(2048)]
    request = embedding_pb2.EmbedRequest(model="all-minilm-l6-v2", inputs=texts)
    with grpc.insecure_channel(f"127.0.0.1:{stack.ports['envoy']}") as channel:
        stub = embedding_pb2_grpc.EmbeddingServiceStub(channel)
        with pytest.raises(grpc.RpcError) as caught:
            stub.Embed(request, timeout=0.5)
        assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        small = embedding_pb2.EmbedRequest(model="all-minilm-l6-v2", inputs=[prompt_pb2.Prompt(text="a cat")])
        assert len(stub.Embed(small, timeout=20).embeddings) == 1
