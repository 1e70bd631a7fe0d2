"""Databricks' generating paths over HTTP: which path streams for which client, and the format of errors."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import grpc
import openai
import pytest
from sluice.v1 import completion_pb2, completion_pb2_grpc, embedding_pb2, embedding_pb2_grpc

from tests.gateway import fakes
from tests.gateway.conftest import Gateway, chat_body

INVOKE = "/serving-endpoints/org/b/invocations"
BASE = "/serving-endpoints/chat/completions"
MESSAGES = chat_body()["messages"]


class FakeGenerations(
    fakes.FakeService, completion_pb2_grpc.CompletionServiceServicer, embedding_pb2_grpc.EmbeddingServiceServicer
):
    """Continues every prompt by an exclamation mark, and embeds every text as [1.0]."""

    async def Complete(  # noqa: N802  the contract's name
        self, request: completion_pb2.CompleteRequest, context: Any
    ) -> completion_pb2.CompleteResponse:
        choices = [
            completion_pb2.CompletionChoice(
                index=i, prompt_index=i, text=f"{prompt.text}!", finish_reason="FINISH_REASON_STOP"
            )
            for i, prompt in enumerate(request.prompts)
        ]
        return completion_pb2.CompleteResponse(id="1", model=request.model, choices=choices, usage=fakes.USAGE)

    async def StreamComplete(  # noqa: N802  the contract's name
        self, request: completion_pb2.CompleteRequest, context: Any
    ) -> AsyncIterator[completion_pb2.StreamCompleteResponse]:
        event = completion_pb2.StreamCompleteResponse
        yield event(started=completion_pb2.CompletionStarted(id="1", model=request.model, n=1))
        for i, prompt in enumerate(request.prompts):
            yield event(delta=completion_pb2.CompletionDelta(choice_index=i, text=f"{prompt.text}!"))
        yield event(completed=completion_pb2.CompletionCompleted())

    async def Embed(  # noqa: N802  the contract's name
        self, request: embedding_pb2.EmbedRequest, context: Any
    ) -> embedding_pb2.EmbedResponse:
        embeddings = [embedding_pb2.Embedding(index=i, values=[1.0]) for i in range(len(request.inputs))]
        return embedding_pb2.EmbedResponse(id="1", model=request.model, embeddings=embeddings, usage=fakes.USAGE)


@pytest.fixture
async def service() -> AsyncIterator[FakeGenerations]:
    """The scripted service of this module."""
    service = FakeGenerations()
    server, service.port = await fakes.start(service)
    yield service
    await server.stop(None)


@pytest.mark.parametrize(
    ("path", "accept", "is_streamed"),
    [
        (INVOKE, "*/*", True),
        (INVOKE, "text/event-stream", True),
        (INVOKE, "application/json", False),
        (BASE, "*/*", False),
        (BASE, "text/event-stream", False),
    ],
)
async def test_path_accept_header_and_body_decide_about_streaming(
    gateway: Gateway, path: str, accept: str, *, is_streamed: bool
) -> None:
    """Invocations stream unless the client accepts JSON only; the base path streams on request in the body."""
    body = {"messages": MESSAGES} | ({"model": "org/b"} if path == BASE else {})
    answer = await gateway.http.post(path, json=body, headers={"accept": accept})
    assert answer.headers["content-type"].startswith("text/event-stream" if is_streamed else "application/json")
    assert gateway.service.requests[-1].model == "org/b"
    if is_streamed:
        assert answer.text.endswith("data: [DONE]\n\n")
    else:
        assert answer.json()["object"] == ("chat.completion" if path == BASE else "chat.completions")


async def test_tasks_by_body(gateway: Gateway) -> None:
    """One path serves three tasks."""
    headers = {"accept": "application/json"}
    answer = await gateway.http.post(INVOKE, json={"prompt": ["a", "b"]}, headers=headers)
    assert answer.json()["object"] == "text_completion"
    assert [(choice["index"], choice["text"]) for choice in answer.json()["choices"]] == [(0, "a!"), (1, "b!")]
    streamed = await gateway.http.post(INVOKE, json={"prompt": ["a", "b"]})
    *chunks, done = [event.removeprefix("data: ") for event in streamed.text.removesuffix("\n\n").split("\n\n")]
    assert [json.loads(chunk)["choices"][0]["text"] for chunk in chunks] == ["a!", "b!"]
    assert done == "[DONE]"
    answer = await gateway.http.post(INVOKE, json={"input": ["a", "b"]})
    assert [each["embedding"] for each in answer.json()["data"]] == [[1.0], [1.0]]
    assert "completion_tokens" not in answer.json()["usage"]


@pytest.mark.parametrize("path", [INVOKE, BASE])
async def test_service_error_has_the_callers_name(gateway: Gateway, path: str) -> None:
    """An error of the service has the caller's field name and Databricks' format."""
    bad = fakes.bad_request(sampling__temperature="must be at most 2")
    status = fakes.Status(grpc.StatusCode.INVALID_ARGUMENT, "no", fakes.error_info("INVALID_FIELD"), bad)
    gateway.service.script = fakes.play([status])
    answer = await gateway.http.post(path, json={"messages": MESSAGES} | ({"model": "m"} if path == BASE else {}))
    assert answer.status_code == 400
    assert answer.json() == {
        "error_code": "INVALID_PARAMETER_VALUE",
        "message": "temperature: must be at most 2",
    }


async def test_full_queue_has_a_retry_after_header(gateway: Gateway) -> None:
    """The SDK retries after the time in `retry-after`."""
    status = fakes.Status(grpc.StatusCode.RESOURCE_EXHAUSTED, "full", fakes.error_info("QUEUE_FULL"))
    gateway.service.script = fakes.play([status])
    answer = await gateway.http.post(INVOKE, json={"messages": MESSAGES})
    assert (answer.status_code, answer.json()["error_code"]) == (429, "REQUEST_LIMIT_EXCEEDED")
    assert answer.headers["retry-after"] == "1"


@pytest.mark.slow
async def test_error_in_mid_stream(gateway: Gateway) -> None:
    """A failed stream ends with one error event without [DONE], for which OpenAI's client raises an exception."""
    gateway.service.script = fakes.play([fakes.STARTED, fakes.text("a"), fakes.Status(grpc.StatusCode.UNAVAILABLE)])
    answer = await gateway.http.post(INVOKE, json={"messages": MESSAGES})
    *_, last = answer.text.removesuffix("\n\n").split("\n\n")
    assert json.loads(last.removeprefix("data: "))["error_code"] == "TEMPORARILY_UNAVAILABLE"
    assert "[DONE]" not in answer.text
    url = f"http://127.0.0.1:{gateway.port}/serving-endpoints"
    async with openai.AsyncOpenAI(base_url=url, api_key="unused", max_retries=0) as client:
        stream = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        with pytest.raises(openai.APIError, match="not available"):
            async for _ in stream:
                pass


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("POST", "/serving-endpoints/nothing", 404, "ENDPOINT_NOT_FOUND"),
        ("GET", INVOKE, 405, "METHOD_NOT_ALLOWED"),
        ("POST", INVOKE, 400, "BAD_REQUEST"),
        ("POST", BASE, 400, "INVALID_PARAMETER_VALUE"),
    ],
)
async def test_errors(gateway: Gateway, method: str, path: str, status: int, code: str) -> None:
    """Every error under /serving-endpoints has Databricks' format, also for unknown routes and methods."""
    answer = await gateway.http.request(method, path, json={} if method == "POST" else None)
    assert answer.status_code == status
    assert set(answer.json()) == {"error_code", "message"}
    assert answer.json()["error_code"] == code
