"""One chat over REST, SSE, gRPC and gRPC-web, all through Envoy."""

import asyncio
import json
import struct
from contextlib import AsyncExitStack

import grpc
import httpx
import pytest
from sluice.v1 import chat_pb2, chat_pb2_grpc, content_pb2, model_pb2, model_pb2_grpc, sampling_pb2

from tests.e2e.stack import GENERATOR, Stack, started
from tests.waiting import GUARD_S

PROMPT = "Hello! Who are you?"


def rest_body(**more: object) -> dict[str, object]:
    return {"model": "sluice-demo", "temperature": 0, "messages": [{"role": "user", "content": PROMPT}], **more}


def grpc_request() -> chat_pb2.ChatRequest:
    return chat_pb2.ChatRequest(
        model="sluice-demo",
        messages=[content_pb2.Message(role=content_pb2.ROLE_USER, content=[content_pb2.ContentPart(text=PROMPT)])],
        sampling=sampling_pb2.SamplingParams(temperature=0),
    )


def long_request() -> chat_pb2.ChatRequest:
    """Return a request whose answer takes far longer than a deadline of some milliseconds."""
    request = grpc_request()
    request.stopping.max_tokens, request.stopping.ignore_eos = 1500, True
    return request


@pytest.fixture(scope="module")
def whole(stack: Stack) -> str:
    """Return the greedy answer, unstreamed, over REST."""
    answer = httpx.post(f"{stack.url}/v1/chat/completions", json=rest_body(), timeout=GUARD_S)
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["finish_reason"] == "stop"
    content = answer.json()["choices"][0]["message"]["content"]
    assert content
    return str(content)


def test_rest_stream_equals_the_unstreamed_answer(stack: Stack, whole: str) -> None:
    """The deltas of a streamed answer add up to the unstreamed one, and the stream ends with [DONE]."""
    pieces, last = [], ""
    with httpx.stream(
        "POST", f"{stack.url}/v1/chat/completions", json=rest_body(stream=True), timeout=GUARD_S
    ) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["x-request-id"]
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                pieces += [c["delta"].get("content") or "" for c in json.loads(line[6:])["choices"]]
            last = line or last
    assert last == "data: [DONE]"
    assert "".join(pieces) == whole


def test_long_answer_is_streamed_in_several_chunks(stack: Stack) -> None:
    """A long answer arrives in several chunks, although one chunk may have several tokens."""
    body = rest_body(stream=True) | {"temperature": 2, "seed": 1, "max_tokens": 1000, "ignore_eos": True}
    texts: list[str] = []
    while len(texts) < 2:  # a service that was not scheduled before the answer's end has it in one piece
        with httpx.stream("POST", f"{stack.url}/v1/chat/completions", json=body, timeout=GUARD_S) as answer:
            chunks = [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: {")]
        texts = [text for chunk in chunks for each in chunk["choices"] if (text := each["delta"].get("content"))]
        assert texts


async def test_concurrent_requests_up_to_the_batch_slots_are_served() -> None:
    """Concurrent requests up to the number of batch slots are all served, in several rounds.

    They are begun in groups, since a slow machine doesn't accept 64 calls in the time that a call may wait for it.
    """
    body = rest_body(stream=True) | {"max_tokens": 200, "ignore_eos": True}
    limits = httpx.Limits(max_connections=64)
    environment = {"SLUICE_SERVICE_ENGINE__MAX_QUEUE_WAIT_S": "1e9"}  # a slow machine takes seconds to accept them
    with started(GENERATOR, environment=environment) as stack:
        async with httpx.AsyncClient(base_url=stack.url, timeout=GUARD_S, limits=limits) as http:
            for _ in range(2):
                async with AsyncExitStack() as opened:

                    async def begin(opened: AsyncExitStack = opened) -> httpx.Response:
                        return await opened.enter_async_context(http.stream("POST", "/v1/chat/completions", json=body))

                    answers: list[httpx.Response] = []
                    for _ in range(8):
                        answers += await asyncio.gather(*(begin() for _ in range(8)))
                    assert {answer.status_code for answer in answers} == {200}
                    contents = await asyncio.gather(*(answer.aread() for answer in answers))
                    assert all(content.endswith(b"data: [DONE]\n\n") for content in contents)


def test_grpc_stream_equals_rest(stack: Stack, whole: str) -> None:
    """A gRPC client behind Envoy receives the same text, and one terminal event."""
    with grpc.insecure_channel(f"127.0.0.1:{stack.ports['envoy']}") as channel:
        events = list(chat_pb2_grpc.ChatServiceStub(channel).StreamChat(grpc_request(), timeout=GUARD_S))
    assert "".join(e.content_delta.text for e in events) == whole
    assert [e.sequence_number for e in events] == list(range(len(events)))
    kinds = [e.WhichOneof("event") for e in events]
    assert kinds[0] == "started"
    assert kinds[-3:] == ["choice_finished", "usage", "completed"]


def test_grpc_lists_models(stack: Stack) -> None:
    """ModelService responds behind Envoy."""
    with grpc.insecure_channel(f"127.0.0.1:{stack.ports['envoy']}") as channel:
        models = (
            model_pb2_grpc.ModelServiceStub(channel).ListModels(model_pb2.ListModelsRequest(), timeout=GUARD_S).models
        )
    assert {m.name: m.architecture for m in models} == {
        "all-minilm-l6-v2": "BertModel",
        "sluice-demo": "Qwen3ForCausalLM",
    }


def test_grpc_web_equals_rest(stack: Stack, whole: str) -> None:
    """A gRPC-web call over HTTP/1.1 receives the same text and an OK trailer."""
    message = grpc_request().SerializeToString()
    answer = httpx.post(
        f"{stack.url}/sluice.v1.ChatService/Chat",
        content=struct.pack(">BI", 0, len(message)) + message,
        headers={"content-type": "application/grpc-web+proto", "x-grpc-web": "1"},
        timeout=GUARD_S,
    )
    body = answer.content
    _, length = struct.unpack(">BI", body[:5])
    response = chat_pb2.ChatResponse.FromString(body[5 : 5 + length])
    assert response.choices[0].message.content[0].text == whole
    assert b"grpc-status:0" in body[5 + length :]


def test_request_id_is_kept(stack: Stack) -> None:
    """The response and the logs have the client's x-request-id."""
    answer = httpx.post(
        f"{stack.url}/v1/chat/completions",
        json=rest_body(max_tokens=1),
        headers={"x-request-id": "abc-123"},
        timeout=GUARD_S,
    )
    assert answer.headers["x-request-id"] == "abc-123"
    stack.wait_for("abc-123")
