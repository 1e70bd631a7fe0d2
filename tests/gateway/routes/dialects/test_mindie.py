"""MindIE's and KServe's paths over HTTP: the calls to the service, and the format of errors."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from sluice.v1 import chat_pb2, model_pb2, text_generation_pb2_grpc
from sluice.v1.text_generation_pb2 import (
    GenerateTextRequest,
    GenerateTextResponse,
    StreamGenerateTextResponse,
    TextGenerationCompleted,
    TextGenerationDelta,
    TextGenerationFinished,
    TextGenerationStarted,
)

from tests.gateway import fakes
from tests.gateway.conftest import Gateway

Event = StreamGenerateTextResponse

STARTED = Event(started=TextGenerationStarted(id="7", model="org/b", model_version="2"))
HEL, LO = (Event(delta=TextGenerationDelta(text=text)) for text in ("Hel", "lo"))
FINISHED = Event(finished=TextGenerationFinished(finish_reason=chat_pb2.FINISH_REASON_STOP))
COMPLETED = Event(completed=TextGenerationCompleted())
BODY = {"text_input": "My name is"}
PATHS = ("/v2/models/org/b/generate", "/v2/models/org/b/versions/2/generate")


class FakeTextService(fakes.FakeService, text_generation_pb2_grpc.TextGenerationServiceServicer):
    """Generates `events` for every prompt, or fails if there is a status among them."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[GenerateTextRequest] = []
        self.events: list[Event | fakes.Status] = [STARTED, HEL, LO, FINISHED, Event(usage=fakes.USAGE), COMPLETED]

    async def StreamGenerateText(  # noqa: N802  the contract's name
        self, request: GenerateTextRequest, context: Any
    ) -> AsyncIterator[Event]:
        self.texts.append(request)
        self._note(context)
        for event in self.events:
            if isinstance(event, fakes.Status):
                await fakes.abort(context, event)
            else:
                yield event

    async def GenerateText(self, request: GenerateTextRequest, context: Any) -> GenerateTextResponse:  # noqa: N802
        text = "".join([event.delta.text async for event in self.StreamGenerateText(request, context)])
        return GenerateTextResponse(id="7", model="org/b", text=text, finish_reason=chat_pb2.FINISH_REASON_STOP)

    async def GetModel(  # noqa: N802  the contract's name
        self, request: model_pb2.GetModelRequest, context: Any
    ) -> model_pb2.GetModelResponse:
        response = await super().GetModel(request, context)
        response.model.version = "2"
        response.model.vocab_size = 1000
        return response


@pytest.fixture
async def service() -> AsyncIterator[FakeTextService]:
    """Run the scripted service of this module."""
    service = FakeTextService()
    server, service.port = await fakes.start(service)
    yield service
    await server.stop(None)


@pytest.mark.parametrize(("path", "version"), list(zip(PATHS, ("", "2"), strict=True)))
async def test_stream(gateway: Gateway, service: FakeTextService, path: str, version: str) -> None:
    """The streaming path sends one event per piece of text and a last one, without [DONE]."""
    answer = await gateway.http.post(f"{path}_stream", json={**BODY, "id": "a"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = answer.text.removesuffix("\n\n").split("\n\n")
    assert [json.loads(event.removeprefix("data:")) for event in events] == [
        {"id": "a", "model_name": "org/b", "model_version": "2", "text_output": text, **end}
        for text, end in (("Hel", {}), ("lo", {}), ("", {"finish_reason": "eos_token"}))
    ]
    (request,) = service.texts
    request.ClearField("sampling")
    assert request == GenerateTextRequest(model="org/b", model_version=version, text_input="My name is")


@pytest.mark.parametrize("path", PATHS)
async def test_unstreamed_answer(gateway: Gateway, path: str) -> None:
    """The other path answers whole, whatever the caller accepts."""
    answer = await gateway.http.post(path, json=BODY, headers={"accept": "text/event-stream"})
    assert answer.json() == {
        "id": "7", "model_name": "org/b", "model_version": None, "text_output": "Hello", "finish_reason": "eos_token",
    }  # fmt: skip


async def test_service_error_has_the_callers_name(gateway: Gateway, service: FakeTextService) -> None:
    """An error of the service has the caller's field name and this dialect's range."""
    bad = fakes.bad_request(sampling__temperature="must be from 0 to 2")
    service.events = [fakes.Status(grpc.StatusCode.INVALID_ARGUMENT, "no", fakes.error_info("INVALID_FIELD"), bad)]
    for path in (PATHS[0], f"{PATHS[0]}_stream"):
        answer = await gateway.http.post(path, json={**BODY, "parameters": {"temperature": 3}})
        assert answer.status_code == 400
        error = {"error": "parameters.temperature: must be above 0 and at most 2", "error_type": "validation"}
        assert answer.json() == error


@pytest.mark.parametrize("path", [PATHS[0], f"{PATHS[0]}_stream"])
@pytest.mark.parametrize(("asked_s", "least", "most"), [(7, 0, 7), (3600, 60, 600), (None, 60, 600)])
async def test_timeout_sets_the_calls_deadline(
    gateway: Gateway, service: FakeTextService, *, path: str, asked_s: int | None, least: int, most: int
) -> None:
    """The timeout is in seconds, and at most the gateway's own."""
    await gateway.http.post(path, json={**BODY, "parameters": {"timeout": asked_s}})
    assert gateway.settings.request_deadline_s == 600
    assert least < service.time_remaining[-1] <= most + 2  # the clocks of both ends


@pytest.mark.slow
async def test_short_deadline_does_not_throttle_others(gateway: Gateway, service: FakeTextService) -> None:
    """A rejection because of a short deadline does not throttle other requests."""
    text = "the request would wait for about 1.0 s to begin; the limit is 0.5 s"
    rejection = fakes.Status(grpc.StatusCode.RESOURCE_EXHAUSTED, text, fakes.error_info("QUEUE_FULL"))
    service.events = [rejection]
    for _ in range(50):
        answer = await gateway.http.post(PATHS[0], json={**BODY, "parameters": {"timeout": 1}})
        assert answer.status_code == 429
    assert len(service.texts) == 50


@pytest.mark.parametrize("path", [PATHS[0], f"{PATHS[0]}_stream"])
@pytest.mark.parametrize(("top_k", "status"), [(0, 200), (999, 200), (1000, 400)])
async def test_top_k_is_below_the_vocabulary(
    gateway: Gateway, service: FakeTextService, path: str, top_k: int, status: int
) -> None:
    """A `top_k` above the vocabulary's size is rejected, and nothing is generated."""
    answer = await gateway.http.post(path, json={**BODY, "parameters": {"top_k": top_k}})
    assert answer.status_code == status
    if status == 400:
        message = "parameters.top_k: must be below 1000, the size of the model's vocabulary"
        assert answer.json() == {"error": message, "error_type": "validation"}
        assert not service.texts


async def test_error_in_mid_stream(gateway: Gateway, service: FakeTextService) -> None:
    """A failed stream ends with one event in the error format."""
    service.events = [STARTED, HEL, fakes.Status(grpc.StatusCode.UNAVAILABLE, "gone")]
    answer = await gateway.http.post(f"{PATHS[0]}_stream", json=BODY)
    *_, last = answer.text.removesuffix("\n\n").split("\n\n")
    assert json.loads(last.removeprefix("data:"))["error_type"] == "unavailable"


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("GET", "/v2/models/org/b/generate", 405, "validation"),
        ("POST", "/v2/models/org/b", 405, "validation"),
        ("POST", "/v2/health/live", 405, "validation"),
        ("GET", "/v2/nothing", 404, "not_found"),
        ("GET", "/v2/models/other/ready", 404, "not_found"),
        ("GET", "/v2/models/org/b/versions/3/ready", 404, "not_found"),
        ("POST", "/v2/models/org/b/generate", 400, "validation"),
    ],
)
async def test_errors(gateway: Gateway, method: str, path: str, status: int, kind: str) -> None:
    """Every error under /v2 has MindIE's format, also for unknown routes and methods."""
    answer = await gateway.http.request(method, path, json={} if method == "POST" else None)
    assert answer.status_code == status
    body = answer.json()
    assert set(body) == {"error", "error_type"}
    assert body["error_type"] == kind


async def test_server(gateway: Gateway, service: FakeTextService) -> None:
    """The server reports its name, its liveness and its readiness."""
    metadata = (await gateway.http.get("/v2")).json()
    assert metadata["name"] == "sluice"
    assert "generate_stream" in metadata["extensions"]
    assert (await gateway.http.get("/v2/health/live")).json() == {"live": True}
    assert (await gateway.http.get("/v2/health/ready")).json() == {"ready": True}
    service.health = health_pb2.HealthCheckResponse.NOT_SERVING
    answer = await gateway.http.get("/v2/health/ready")
    assert (answer.status_code, answer.json()["error_type"]) == (503, "unavailable")
    assert (await gateway.http.get("/v2/health/live")).status_code == 200


@pytest.mark.parametrize("path", ["/v2/models/org/b", "/v2/models/org/b/versions/2"])
async def test_model_is_ready(gateway: Gateway, path: str) -> None:
    """A served model is ready, by its name and version."""
    assert (await gateway.http.get(f"{path}/ready")).json() == {"name": "org/b", "ready": True}
