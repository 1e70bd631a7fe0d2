"""Valid chat requests over HTTP and gRPC."""

from __future__ import annotations

import json
import threading

import httpx
import pytest
from grpc_health.v1.health_pb2 import HealthCheckResponse
from sluice.v1 import chat_pb2
from starlette.routing import Route, Router

from gateway.dialects.openai.chat import OpenAITranslator
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.translator import ParsedRequest
from gateway.operators.observer import RequestObserver
from gateway.routes.handling.generation_endpoint import GenerationEndpoint
from gateway.routes.upstream.bodies import BodyReader
from gateway.telemetry.telemetry import Telemetry
from gateway.upstream.affinity import affinity_key
from gateway.upstream.client import ServiceClient
from process.distribution import installed_version
from tests.gateway.conftest import Gateway, chat_body


async def test_unstreamed_answer(gateway: Gateway) -> None:
    """An unstreamed chat is one chat.completion with all values of the service."""
    answer = await gateway.chat()
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert body["object"] == "chat.completion"
    assert body["choices"][0]["message"]["content"] == "Hello"
    assert body["usage"]["total_tokens"] == 10


async def test_stream_bytes(gateway: Gateway) -> None:
    """A stream has one chunk per event, no comment, and ends with a single [DONE]."""
    answer = await gateway.chat(stream=True)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"
    events = answer.text.split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-2]]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    role = {"role": "assistant", "content": "", "refusal": None}
    assert deltas == [role, {"content": "Hel"}, {"content": "lo"}, {}]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None, None, "stop"]


@pytest.mark.parametrize("stream", [False, True])
async def test_request_reaches_service(gateway: Gateway, *, stream: bool) -> None:
    """The service receives the request, its deadline and its metadata, streamed or whole."""
    answer = await gateway.http.post(
        "/v1/chat/completions",
        json=chat_body(stream=stream, model="org/ä", prompt_cache_key="user 1", temperature=0.5),
        headers={"authorization": "Bearer x", "x-request-id": "r-1", "traceparent": f"00-{'a' * 32}-{'b' * 16}-01"},
    )
    assert answer.status_code == 200
    assert answer.headers["x-request-id"] == "r-1"
    (request,) = gateway.service.requests
    assert request.model == "org/ä"
    assert request.sampling.temperature == 0.5
    metadata = gateway.service.metadata[0]
    assert metadata["authorization"] == "Bearer x"
    assert metadata["x-request-id"] == "r-1"
    assert metadata["x-sluice-model"] == "org%2F%C3%A4"
    assert metadata["x-sluice-affinity"] == affinity_key(request, "Bearer x", "user 1")
    assert metadata["traceparent"].split("-")[1] == "a" * 32
    # gRPC rounds a time-out up on the wire, to a whole number of its largest fitting unit.
    assert 0 < gateway.service.time_remaining[0] < gateway.settings.request_deadline_s + 2


async def test_missing_request_id_is_generated(gateway: Gateway) -> None:
    """Without a valid x-request-id each request gets a new one, also for errors."""
    ids = {(await gateway.http.get(path)).headers["x-request-id"] for path in ("/v1/models", "/nothing", "/healthz")}
    assert len(ids) == 3
    answer = await gateway.http.get("/healthz", headers={"x-request-id": "x" * 129})
    assert answer.headers["x-request-id"] != "x" * 129


async def test_models(gateway: Gateway) -> None:
    """Models are listed, and found by name even if it contains a slash."""
    listed = (await gateway.http.get("/v1/models")).json()
    assert listed["object"] == "list"
    assert [model["id"] for model in listed["data"]] == ["a", "org/b"]
    found = (await gateway.http.get("/v1/models/org/b")).json()
    assert found == {
        "id": "org/b", "object": "model", "created": 1_700_000_000, "owned_by": "sluice", "state": "loaded",
    }  # fmt: skip
    assert listed["data"][0]["state"] == "unloaded"
    missing = await gateway.http.get("/v1/models/c")
    assert missing.status_code == 404
    assert missing.json()["error"]["code"] == "model_not_found"


async def test_probes(gateway: Gateway) -> None:
    """/healthz reports the process only, /readyz, /health and /ping the service, and none creates a span."""
    assert (await gateway.http.get("/readyz")).status_code == 200
    assert (await gateway.http.get("/health")).status_code == 200
    gateway.service.health = HealthCheckResponse.NOT_SERVING
    unready = await gateway.http.get("/readyz")
    assert unready.status_code == 503
    assert "NOT_SERVING" in unready.json()["reason"]
    health = await gateway.http.get("/health")
    assert (health.status_code, health.json()) == (503, unready.json())
    assert (await gateway.http.get("/ping")).status_code == 503
    assert (await gateway.http.get("/healthz")).status_code == 200
    assert gateway.spans.get_finished_spans() == ()


async def test_version_equals_the_distributions(gateway: Gateway) -> None:
    assert (await gateway.http.get("/version")).json() == {"version": installed_version()}


@pytest.mark.parametrize("is_large", [False, True])
async def test_large_body_is_parsed_off_the_loop(gateway: Gateway, *, is_large: bool) -> None:
    """Other requests don't wait for a large body, and its errors are the usual ones."""
    threads: list[threading.Thread] = []

    class WatchedTranslator(OpenAITranslator):
        def parse(self, arrival: HttpRequest) -> ParsedRequest[chat_pb2.ChatRequest]:
            threads.append(threading.current_thread())
            return super().parse(arrival)

    telemetry = Telemetry(None)
    content = "word " * (100_000 if is_large else 1)
    body = chat_body(messages=[{"role": "user", "content": content}])
    async with ServiceClient.connect(gateway.settings, telemetry) as client:
        bodies = BodyReader(client.require_key, gateway.settings)
        endpoint = GenerationEndpoint(WatchedTranslator, client, bodies, gateway.settings)
        router = Router([Route("/chat", endpoint, methods=["POST"])])
        app = RequestObserver(router, telemetry, lambda _, failure: OpenAITranslator().error_response(failure), 60)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://gateway") as http:
            assert (await http.post("/chat", json=body)).status_code == 200
            rejection = await http.post("/chat", json=body | {"colour": 1})
    telemetry.shutdown()
    assert gateway.service.requests[0].messages[0].content[0].text == content
    assert (rejection.status_code, rejection.json()["error"]["param"]) == (400, "colour")
    assert [thread is threading.main_thread() for thread in threads] == [not is_large] * 2
