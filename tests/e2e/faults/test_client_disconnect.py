"""A disconnected client costs nothing.

Whenever and wherever it disconnects, the engine is idle and every block free.
"""

import json
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
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

from tests.e2e.faults.disconnects import MODEL, check_left_after, check_left_before, num_choices, until_generating
from tests.e2e.stack import Stack
from tests.service.contract.fakes import user
from tests.waiting import GUARD_S

LONG = "word " * 300
ENDLESS = sampling_pb2.StopParams(ignore_eos=True)
ENDS = (0, 2)  # the stop tokens of the demo model
NO_END = dict.fromkeys(ENDS, -100.0)


@dataclass(frozen=True)
class Endless:
    """A request that generates up to the model's whole context.

    Where `path` has a streamed form, it replaces `stream`.
    """

    path: str
    body: dict[str, Any]
    listeners: tuple[str, ...] = ("envoy",)

    @property
    def num_choices(self) -> int:
        prompts = self.body.get("prompt")
        return int(self.body.get("n", 1)) * (len(prompts) if isinstance(prompts, list) else 1)

    def send(self, port: int, *, stream: bool) -> socket.socket:
        """Return a connection on which the request was sent and nothing was read."""
        is_generate = self.path.endswith("generate")
        path = f"{self.path}_stream" if is_generate and stream else self.path
        body = json.dumps(self.body if is_generate else self.body | {"stream": stream}).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
        head += f"extra-parameters: pass-through\r\ncontent-length: {len(body)}\r\n\r\n"
        connection = socket.create_connection(("127.0.0.1", port), timeout=GUARD_S)
        connection.sendall(head.encode() + body)
        return connection


DRAWN = {"temperature": 1, "top_p": 1}  # without repetition, which speculation would generate at once
FOUR = {"ignore_eos": True, "n": 4, **DRAWN}
CHAT = FOUR | {"messages": [{"role": "user", "content": LONG}]}
# MindIE cannot forbid stop tokens; the repetition penalty makes those of the prompt unlikely.
BABBLE = {**DRAWN, "repetition_penalty": 100.0, "max_new_tokens": 2000}
REQUESTS = [
    Endless("/v1/chat/completions", CHAT | {"model": MODEL}, ("gateway", "envoy")),
    Endless("/v1/completions", {"model": MODEL, "prompt": [LONG] * 2, "ignore_eos": True, "n": 2, **DRAWN}),
    Endless(
        "/v1/messages", {"model": MODEL, "max_tokens": 2000, "ignore_eos": True, "messages": CHAT["messages"], **DRAWN}
    ),
    Endless("/v1/responses", {"model": MODEL, "input": LONG, "logit_bias": NO_END, **DRAWN}),
    Endless(f"/serving-endpoints/{MODEL}/invocations", CHAT),
    Endless("/chat/completions?api-version=2024-05-01-preview", CHAT | {"model": MODEL}),
    Endless(f"/openai/deployments/{MODEL}/chat/completions?api-version=2024-10-21", CHAT),
    Endless(f"/v2/models/{MODEL}/generate", {"text_input": f"<|im_end|><|endoftext|>{LONG}", "parameters": BABBLE}),
]
CASES = [pytest.param(each, listener, id=f"{each.path}-{listener}") for each in REQUESTS for listener in each.listeners]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(("endless", "listener"), CASES)
def test_rest_disconnect_releases_everything(
    stack: Stack, endless: Endless, listener: str, moment: str, *, stream: bool
) -> None:
    """A REST client disconnects before or after the first token, streamed and unstreamed, in every dialect."""

    def leave(after_s: float) -> None:
        with endless.send(stack.ports[listener], stream=stream):
            time.sleep(after_s)

    def start(before: float) -> Callable[[], object]:
        connection = endless.send(stack.ports[listener], stream=stream)
        until_generating(stack, before)
        if stream:
            assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        return connection.close

    if moment == "before":
        check_left_before(stack, leave)
    else:
        check_left_after(stack, endless.num_choices, start)


LONG_CHAT = chat_pb2.ChatRequest(
    model=MODEL,
    messages=[user(LONG)],
    sampling=sampling_pb2.SamplingParams(temperature=1, top_p=1),
    stopping=ENDLESS,
    n=4,
)
STREAMS: dict[str, tuple[type, Message]] = {
    "Chat": (chat_pb2_grpc.ChatServiceStub, LONG_CHAT),
    "Complete": (
        completion_pb2_grpc.CompletionServiceStub,
        completion_pb2.CompleteRequest(
            model=MODEL,
            prompts=[prompt_pb2.Prompt(text=LONG)] * 3,
            sampling=sampling_pb2.SamplingParams(temperature=1, top_p=1),
            stopping=ENDLESS,
            n=2,
        ),
    ),
    "GenerateText": (
        text_generation_pb2_grpc.TextGenerationServiceStub,
        text_generation_pb2.GenerateTextRequest(
            model=MODEL,
            text_input=LONG,
            do_sample=True,
            sampling=sampling_pb2.SamplingParams(temperature=1, top_p=1),
            stopping=sampling_pb2.StopParams(ignore_eos=True, max_tokens=2000),
        ),
    ),
    "CreateResponse": (
        response_pb2_grpc.ResponseServiceStub,
        response_pb2.CreateResponseRequest(
            model=MODEL,
            input=[
                response_item_pb2.InputItem(
                    message=response_item_pb2.InputMessage(
                        role=content_pb2.ROLE_USER, content=[content_pb2.ContentPart(text=LONG)]
                    )
                )
            ],
            sampling=sampling_pb2.SamplingParams(logit_bias=NO_END, temperature=1, top_p=1),
        ),
    ),
}
TWINS = {"CreateResponse": "StreamResponse"}


def is_text(event: Any) -> bool:
    """Return whether a stream's event has text of the model."""
    return str(event.WhichOneof("event")).endswith("delta")


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("method", STREAMS)
@pytest.mark.parametrize("listener", ["service", "envoy"])
def test_grpc_cancel_releases_everything(
    stack: Stack, method: str, listener: str, moment: str, *, streamed: bool
) -> None:
    """A gRPC call of any generating method is cancelled before or after the first token, directly or through Envoy."""
    kind, request = STREAMS[method]
    target = f"127.0.0.1:{stack.ports[listener]}"
    with grpc.insecure_channel(target) as channel:
        if streamed:
            send = getattr(kind(channel), TWINS.get(method, f"Stream{method}"))
        else:
            send = getattr(kind(channel), method).future

        def leave(after_s: float) -> None:
            call = send(request)
            time.sleep(after_s)
            call.cancel()

        def start(before: float) -> Callable[[], object]:
            call = send(request)
            if streamed:
                next(event for event in call if is_text(event))
            else:
                until_generating(stack, before)
            return call.cancel  # type: ignore[no-any-return]

        if moment == "before":
            check_left_before(stack, leave)
        else:
            check_left_after(stack, num_choices(request), start)


def test_grpc_deadline_releases_everything(stack: Stack) -> None:
    """The client's deadline stops the generation and is the status."""
    target = f"127.0.0.1:{stack.ports['envoy']}"
    with grpc.insecure_channel(target) as channel:

        def leave(after_s: float) -> None:
            with pytest.raises(grpc.RpcError) as caught:
                chat_pb2_grpc.ChatServiceStub(channel).Chat(LONG_CHAT, timeout=after_s)
            assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED

        check_left_before(stack, leave, "")


def test_grpc_embeddings_stop_at_the_deadline(stack: Stack) -> None:
    """Texts that wait when their call's deadline expires are never computed."""
    texts = [prompt_pb2.Prompt(text=f"{index} {LONG[:1000]}") for index in range(2048)]
    request = embedding_pb2.EmbedRequest(model="all-minilm-l6-v2", inputs=texts)
    computed = "sluice_engine_computed_tokens_total"
    stack.until_idle()
    before, num_before, timeout_s = stack.metric(computed), num_late_embeddings(stack), 0.25
    with grpc.insecure_channel(f"127.0.0.1:{stack.ports['envoy']}") as channel:
        stub = embedding_pb2_grpc.EmbeddingServiceStub(channel)
        with stack.engine_held(1):
            while num_late_embeddings(stack) == num_before:  # the texts have not reached the engine
                timeout_s *= 2
                with pytest.raises(grpc.RpcError) as caught:
                    stub.Embed(request, timeout=timeout_s)
                assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        small = embedding_pb2.EmbedRequest(model="all-minilm-l6-v2", inputs=[prompt_pb2.Prompt(text="a cat")])
        assert len(stub.Embed(small, timeout=GUARD_S).embeddings) == 1
    stack.until_idle()
    assert 0 < stack.metric(computed) - before < len(texts)


def num_late_embeddings(stack: Stack) -> int:
    """Return the number of embedding calls that ended with an error after their texts had reached the engine."""
    url = f"http://127.0.0.1:{stack.ports['service_metrics']}/metrics"
    lines = httpx.get(url, timeout=GUARD_S).text.splitlines()
    series = [line for line in lines if line.startswith("gen_ai_server_request_duration_seconds_count")]
    labels = ('gen_ai_operation_name="embeddings"', "error_type=", "gen_ai_response_model=")
    return sum(int(float(line.split()[-1])) for line in series if all(label in line for label in labels))
