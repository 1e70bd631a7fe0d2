"""The Azure AI model inference API over HTTP and gRPC: routes, choice of the model, credentials, errors."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
import httpx
import pytest
from sluice.v1 import model_pb2

from tests.gateway import fake_services, fakes
from tests.gateway.conftest import Gateway

QUERY = "api-version=2024-05-01-preview"
CHAT = {"messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
async def service() -> AsyncIterator[fake_services.FakeServices]:
    """Run a scripted service with one chat model and one embedding model."""
    service = fake_services.FakeServices()
    server, service.port = await fakes.start(service)
    yield service
    await server.stop(None)


async def chat(
    gateway: Gateway, base: str = "", headers: dict[str, str] | None = None, **fields: Any
) -> httpx.Response:
    """Return a chat request."""
    return await gateway.http.post(f"{base}/chat/completions?{QUERY}", json=CHAT | fields, headers=headers or {})


@pytest.mark.parametrize("base", ["", "/models"])
async def test_chat(gateway: Gateway, base: str) -> None:
    """A chat is answered whole or streamed, without comments."""
    whole = await chat(gateway, base)
    assert whole.status_code == 200
    assert whole.json()["choices"][0]["message"]["content"] == "Hello"
    stream = await chat(gateway, base, stream=True)
    assert all(event.startswith("data: ") for event in stream.text.removesuffix("\n\n").split("\n\n"))
    assert stream.text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize("base", ["", "/models"])
async def test_embeddings(gateway: Gateway, service: fake_services.FakeServices, base: str) -> None:
    """Embeddings use the only model for them."""
    answer = await gateway.http.post(f"{base}/embeddings?{QUERY}", json={"input": ["a", "b"]})
    assert [each["embedding"] for each in answer.json()["data"]] == [[0.5, -0.25], [pytest.approx(0.1), 1.0]]
    assert service.embeddings[0].model == "embedder"


@pytest.mark.parametrize(
    ("endpoints", "name", "deployment", "endpoint"),
    [
        ([], None, None, "talker"),
        ([], "gpt-9", None, "talker"),  # ignored: only one model chats
        (["-embedder"], "gpt-9", None, "talker"),
        (["second"], "gpt-9", None, "gpt-9"),  # the service says that it does not exist
        ([], "embedder", None, "embedder"),  # the service says what it can't do
        ([], None, "talker", "talker"),
        ([], None, "nothing", "talker"),  # the service says that it has no such deployment
        (["-embedder", "ab:talker"], "gpt-9", None, "talker"),
        (["-embedder", "ab:talker"], "ab", None, "ab"),
        (["second"], "second", None, "second"),
        (["second"], None, "second", "second"),
        (["ab:talker,second"], "ab", "second", "ab"),
        (["ab:blue,green"], None, "green", "ab"),
        (["ab:blue,green", "cd:green"], None, "green", "talker"),  # two endpoints have it
    ],
)
async def test_model_is_selected_by_name_deployment_or_task(
    gateway: Gateway, service: fake_services.FakeServices, endpoints: list[str], name: str | None, *,
    deployment: str | None, endpoint: str,
) -> None:  # fmt: skip
    """A known name is kept, a deployment selects its endpoint, and otherwise the only model of the task is used."""
    for each in endpoints:
        if each.startswith("-"):
            service.endpoints = [known for known in service.endpoints if known.name != each[1:]]
            continue
        own, _, entities = each.partition(":")
        names = entities.split(",") if entities else []
        service.endpoints.append(fake_services.endpoint(own, model_pb2.TASK_CHAT, *names))
    headers = {} if deployment is None else {"azureml-model-deployment": deployment}
    answer = await chat(gateway, headers=headers, **({} if name is None else {"model": name}))
    assert answer.status_code == 200
    assert service.requests[0].model == endpoint
    assert service.requests[0].serving.deployment == (deployment or "")
    assert service.metadata[-1]["x-sluice-model"] == endpoint


@pytest.mark.parametrize("stream", [False, True])
async def test_model_must_be_named_among_several(
    gateway: Gateway, service: fake_services.FakeServices, *, stream: bool
) -> None:
    """With two chat models, a request without a name is rejected with the parameter's name."""
    service.endpoints.append(fake_services.endpoint("second", model_pb2.TASK_CHAT))
    answer = await chat(gateway, stream=stream)
    assert (answer.status_code, answer.json()["param"]) == (400, "model")
    assert answer.headers["x-ms-error-code"] == "missing_parameter"
    assert service.requests == []


async def test_no_model_for_the_task(gateway: Gateway, service: fake_services.FakeServices) -> None:
    """Without any model of the task, the route returns 404."""
    del service.endpoints[1]
    answer = await chat(gateway)
    assert (answer.status_code, answer.headers["x-ms-error-code"]) == (404, "unsupported_modality")


async def test_each_credential_has_its_own_endpoint_list(gateway: Gateway, service: fake_services.FakeServices) -> None:
    """Each credential has its own list of endpoints, even immediately after another's request."""
    owners = {"Bearer one": "first", "Bearer two": "second"}
    for credential, name in owners.items():
        service.endpoints_by_credential[credential] = [fake_services.endpoint(name, model_pb2.TASK_CHAT)]
    began = time.monotonic()
    for credential, name in [*owners.items(), *owners.items()]:
        assert (await chat(gateway, headers={"authorization": credential})).status_code == 200
        assert service.requests[-1].model == name
        info = await gateway.http.get(f"/info?{QUERY}", headers={"authorization": credential})
        assert info.json()["model_name"] == name
    assert (await chat(gateway)).status_code == 200
    assert service.requests[-1].model == "talker"
    num_periods = 1 + int((time.monotonic() - began) / 2)  # of two seconds, for which a list is fresh
    assert 3 <= service.num_listed <= 3 * num_periods, "one list of each is shared by its requests"


async def test_info(gateway: Gateway, service: fake_services.FakeServices) -> None:
    """/info describes the chat model, or the requested deployment."""
    for base in ("", "/models"):
        answer = await gateway.http.get(f"{base}/info?{QUERY}")
        assert answer.json() == {
            "model_name": "talker", "model_type": "chat_completion", "model_provider_name": "sluice",
        }  # fmt: skip
    answer = await gateway.http.get(f"/info?{QUERY}", headers={"azureml-model-deployment": "embedder"})
    assert (answer.json()["model_name"], answer.json()["model_type"]) == ("embedder", "embeddings")
    assert (await gateway.http.get("/info")).json()["model_name"] == "talker"
    assert (await gateway.http.get("/info?api-version=1")).json()["param"] == "api-version"
    service.endpoints.clear()


async def test_info_without_a_model_is_404(gateway: Gateway, service: fake_services.FakeServices) -> None:
    """Without a model /info returns 404."""
    service.endpoints.clear()
    answer = await gateway.http.get(f"/info?{QUERY}")
    assert (answer.status_code, answer.headers["x-ms-error-code"]) == (404, "unknown_model")


@pytest.mark.parametrize(
    ("headers", "sent"),
    [
        ({"api-key": "k"}, "Bearer k"),
        ({"authorization": "Bearer t"}, "Bearer t"),
        ({"api-key": "k", "authorization": "Bearer t"}, "Bearer t"),
        ({"api-key": "k", "authorization": "Basic t"}, "Bearer k"),
        ({"x-api-key": "x"}, "Bearer x"),
        ({"x-api-key": "x", "api-key": "k"}, "Bearer k"),
    ],
)
async def test_credentials(gateway: Gateway, headers: dict[str, str], sent: str) -> None:
    """A key reaches the service as bearer token, for the list and the chat; a bearer token has precedence."""
    await chat(gateway, headers=headers)
    assert [metadata["authorization"] for metadata in gateway.service.metadata] == [sent, sent]


async def test_rejection_by_the_service(gateway: Gateway) -> None:
    """A value that the service rejects is 422 with the caller's path and value, in Azure's format."""
    bad = fakes.bad_request(sampling__temperature="must be at most 2")
    status = fakes.Status(grpc.StatusCode.INVALID_ARGUMENT, "", fakes.error_info("INVALID_FIELD"), bad)
    gateway.service.script = fakes.play([status])
    for stream in (False, True):
        answer = await chat(gateway, temperature=3, stream=stream)
        assert (answer.status_code, answer.headers["x-ms-error-code"]) == (422, "invalid_value")
        assert answer.json()["detail"] == {"loc": ["temperature"], "value": "3"}


async def test_failure_in_mid_stream(gateway: Gateway) -> None:
    """A failed stream ends with one named event and without [DONE]."""
    gateway.service.script = fakes.play([fakes.STARTED, fakes.text("a"), fakes.Status(grpc.StatusCode.INTERNAL, "no")])
    answer = await chat(gateway, stream=True)
    *_, last, nothing = answer.text.split("\n\n")
    assert nothing == ""
    name, data = last.split("\n")
    assert (name, json.loads(data.removeprefix("data: "))["status"]) == ("event: error", 500)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/chat/completions", 405, "method_not_allowed"),
        ("POST", "/chat/completion", 404, "not_found"),
        ("GET", "/models/x", 404, "not_found"),
        ("POST", "/info", 405, "method_not_allowed"),
    ],
)
async def test_wrong_route(gateway: Gateway, method: str, path: str, status: int, code: str) -> None:
    """Errors of unknown paths and wrong methods under Azure's prefixes have its format."""
    answer = await gateway.http.request(method, path)
    assert (answer.status_code, answer.headers["x-ms-error-code"]) == (status, code)
    assert answer.json()["status"] == status
    assert ("allow" in answer.headers) == (status == 405)
