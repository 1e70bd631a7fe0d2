"""Completions and embeddings over HTTP and gRPC, also with OpenAI's own client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import grpc
import openai
import pytest

from tests.gateway import fake_services, fakes
from tests.gateway.conftest import Gateway, soon


@pytest.fixture
async def service() -> AsyncIterator[fake_services.FakeServices]:
    """A scripted service that does more than chat."""
    service = fake_services.FakeServices()
    server, service.port = await fakes.start(service)
    yield service
    await server.stop(None)


@pytest.fixture
async def client(gateway: Gateway) -> AsyncIterator[openai.AsyncOpenAI]:
    """OpenAI's client of the gateway."""
    async with openai.AsyncOpenAI(
        base_url=f"http://127.0.0.1:{gateway.port}/v1", api_key="k", max_retries=0, http_client=gateway.http
    ) as client:
        yield client


@pytest.mark.slow
async def test_completion(client: openai.AsyncOpenAI, service: fake_services.FakeServices) -> None:
    """A completion has the same text whole and streamed, and the service receives the request."""
    whole = await client.completions.create(model="m", prompt="hi", max_tokens=5)
    assert (whole.object, whole.choices[0].text, whole.choices[0].finish_reason) == (
        "text_completion",
        "Hello",
        "length",
    )
    assert whole.usage is not None
    assert whole.usage.total_tokens == 10
    stream = await client.completions.create(
        model="m", prompt=[1, 2], stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(choice.text for chunk in chunks for choice in chunk.choices) == "Hello"
    assert chunks[-1].usage is not None
    assert [list(request.prompts[0].token_ids.ids) for request in service.completions] == [[], [1, 2]]
    assert service.completions[0].stopping.max_tokens == 5
    assert service.metadata[0]["x-sluice-model"] == "m"


async def test_embedding(client: openai.AsyncOpenAI, service: fake_services.FakeServices) -> None:
    """OpenAI's client, which requests base64, returns the same vectors as a request for numbers."""
    coded = await client.embeddings.create(model="m", input=["a", "b"])
    plain = await client.embeddings.create(model="m", input=["a", "b"], encoding_format="float")
    assert [each.embedding for each in coded.data] == [each.embedding for each in plain.data]
    assert plain.data[0].embedding == [0.5, -0.25]
    assert [prompt.text for prompt in service.embeddings[0].inputs] == ["a", "b"]


@pytest.mark.parametrize(
    ("path", "body", "names"),
    [
        ("completions", {"prompt": ["a", "b"]}, ("prompts[1]", "prompt.1")),
        ("completions", {"prompt": ["a", "b"], "stream": True}, ("prompts[1]", "prompt.1")),
        ("embeddings", {"input": ["a", "b"]}, ("inputs[1].text", "input.1")),
    ],
)
async def test_service_error_has_http_status_and_the_callers_field(
    gateway: Gateway, service: fake_services.FakeServices, path: str, body: dict[str, object], names: tuple[str, str]
) -> None:
    """A status of the service becomes an HTTP status, and its field has the caller's name."""
    field, param = names
    bad = fakes.bad_request(**{field: "is too long"})
    service.status = fakes.Status(grpc.StatusCode.INVALID_ARGUMENT, "", fakes.error_info("PROMPT_TOO_LONG"), bad)
    answer = await gateway.http.post(f"/v1/{path}", json={"model": "m", **body})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["param"], error["code"]) == (param, "context_length_exceeded")
    assert error["message"] == f"{param}: is too long"


async def test_stream_bytes(gateway: Gateway) -> None:
    """A stream has one chunk per event, no comment, and ends with a single [DONE]."""
    answer = await gateway.http.post("/v1/completions", json={"model": "m", "prompt": "hi", "stream": True})
    events = answer.text.split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    choices = [json.loads(event.removeprefix("data: "))["choices"][0] for event in events[:-2]]
    assert [(choice["text"], choice["finish_reason"]) for choice in choices] == [
        ("Hel", None),
        ("lo", None),
        ("", "length"),
    ]


async def test_stream_without_a_terminal_event_ends_with_an_error(
    gateway: Gateway, service: fake_services.FakeServices
) -> None:
    """A stream that ends with OK and without `completed` ends with one error event and no [DONE]."""
    service.num_events -= 1
    answer = await gateway.http.post("/v1/completions", json={"model": "m", "prompt": "hi", "stream": True})
    *_, last, nothing = answer.text.split("\n\n")
    assert nothing == ""
    assert json.loads(last.removeprefix("data: "))["error"]["message"] == "the answer ended unexpectedly"
    assert "[DONE]" not in answer.text


@pytest.mark.parametrize(
    ("path", "body", "held"),
    [
        ("/v1/completions", {"model": "m", "prompt": "hi"}, "Complete"),
        ("/v1/completions", {"model": "m", "prompt": "hi", "stream": True}, "StreamComplete"),
        ("/v1/embeddings", {"model": "m", "input": "hi"}, "Embed"),
        ("/embeddings?api-version=2024-05-01", {"input": "hi"}, "Embed"),
        ("/embeddings?api-version=2024-05-01", {"input": "hi"}, "ListEndpoints"),
    ],
)
async def test_client_disconnect_cancels(
    gateway: Gateway, service: fake_services.FakeServices, path: str, body: dict[str, object], held: str
) -> None:
    """A caller that disconnects cancels its call, whichever RPC it is."""
    service.held.add(held)
    asking = asyncio.create_task(gateway.http.post(path, json=body))
    await soon(service.holding.wait())
    asking.cancel()  # it closes its connection
    await soon(service.cancelled.wait())
