"""The data of the status page: the gateway's numbers, the service's, and the state of an unavailable service."""

from __future__ import annotations

import pytest
from grpc_health.v1 import health_pb2

from tests.gateway.conftest import Gateway, chat_body
from tests.gateway.fakes import STARTED, play, text


async def test_large_integers_are_json_numbers(gateway: Gateway) -> None:
    """Large integers are numbers, which protobuf's own JSON has as strings; responses are counted by status."""
    await gateway.chat()
    await gateway.http.get("/nowhere")
    answer = await gateway.http.get("/status.json")
    assert answer.headers["cache-control"] == "no-store"
    status = answer.json()
    assert (status["unready"], status["problem"]) == (None, None)
    assert status["gateway"] == {"active": 0, "responses": {"200": 1, "404": 1}}
    (model,) = status["service"]["models"]
    assert (model["model"], model["waiting"], model["generated_tokens"]) == ("a", 3, 2**60)
    assert (model["queue_time"], model["state"]) == (None, "unloaded")


async def test_open_requests_are_counted(gateway: Gateway) -> None:
    """Open requests are counted until they end."""
    gateway.service.script = play([STARTED, text("a"), None])
    body = chat_body(stream=True)
    async with gateway.http.stream("POST", "/v1/chat/completions", json=body) as answer:
        assert answer.status_code == 200
        assert (await gateway.http.get("/status.json")).json()["gateway"]["active"] == 1


async def test_status_request_to_the_service_has_the_callers_key(gateway: Gateway) -> None:
    """The request to the service has the caller's key, since the gateway has none."""
    await gateway.http.get("/status.json", headers={"x-api-key": "k"})
    assert gateway.service.metadata[-1]["authorization"] == "Bearer k"
    await gateway.http.get("/status.json")
    assert "authorization" not in gateway.service.metadata[-1]


async def test_status_polls_are_neither_counted_nor_traced(gateway: Gateway) -> None:
    """Polling is neither counted nor traced as a request."""
    for _ in range(3):
        status = (await gateway.http.get("/status.json")).json()
    assert status["gateway"]["responses"] == {}
    assert not [span for span in gateway.spans.get_finished_spans() if span.name.startswith("GET")]


async def test_status_is_available_during_a_drain(gateway: Gateway) -> None:
    """The status is available until the end of a drain."""
    await gateway.drain.drain(0, 30)  # nothing runs
    assert (await gateway.http.get("/v1/models")).status_code == 503
    assert (await gateway.http.get("/status.json")).json()["unready"] == "the server is shutting down"


async def test_status_reports_a_service_that_is_not_ready(gateway: Gateway) -> None:
    """A service that is not ready is reported together with its numbers."""
    gateway.service.health = health_pb2.HealthCheckResponse.NOT_SERVING
    status = (await gateway.http.get("/status.json")).json()
    assert status["unready"] == "the service reports NOT_SERVING"
    assert status["service"] is not None


@pytest.mark.parametrize("flags", [["--target", "127.0.0.1:1"]])
async def test_status_reports_an_unavailable_service(gateway: Gateway) -> None:
    """The gateway's own numbers are available without the service."""
    answer = await gateway.http.get("/status.json")
    assert answer.status_code == 200
    status = answer.json()
    assert status["service"] is None
    assert status["problem"] == status["unready"] == "the service is not available"
