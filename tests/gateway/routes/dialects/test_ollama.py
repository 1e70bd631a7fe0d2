"""Ollama's paths over HTTP: pings, headers that only event streams obey, and operations on models."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from sluice.v1 import model_pb2

from tests.gateway import fakes
from tests.gateway.conftest import Gateway, soon
from tests.waiting import GUARD_S

BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
PING: dict[str, Any] = {"model": "m", "message": {"role": "assistant", "content": ""}, "done": False}
MANAGED = [
    ("POST", "/api/pull"),
    ("POST", "/api/push"),
    ("POST", "/api/create"),
    ("POST", "/api/copy"),
    ("DELETE", "/api/delete"),
    ("POST", "/api/blobs/sha256:29fdb92e57cf0827"),
]


class GuardedService(fakes.FakeService):
    """A service that knows one key."""

    async def ListModels(  # noqa: N802  the contract's name
        self, request: model_pb2.ListModelsRequest, context: Any
    ) -> model_pb2.ListModelsResponse:
        answer = await super().ListModels(request, context)
        if self.metadata[-1].get("authorization") not in {None, "Bearer known"}:
            await fakes.abort(context, fakes.Status(grpc.StatusCode.UNAUTHENTICATED, "the key is not valid"))
        return answer


@pytest.fixture
async def service() -> AsyncIterator[GuardedService]:
    """Run the service of this module."""
    service = GuardedService()
    server, service.port = await fakes.start(service)
    yield service
    await server.stop(None)


@pytest.mark.parametrize("flags", [["--keep-alive-interval-s", "0.05"]])
async def test_idle_stream_has_lines_with_an_empty_piece(gateway: Gateway) -> None:
    """Each line of an idle stream is an object that clients know."""
    gateway.service.script = fakes.play([fakes.STARTED, None])
    found: list[Any] = []
    async with asyncio.timeout(GUARD_S):
        async with gateway.http.stream("POST", "/api/chat", json=BODY) as answer:
            assert answer.headers["content-type"] == "application/x-ndjson"
            async for line in answer.aiter_lines():
                found.append(json.loads(line))
                if len(found) == 2:
                    break
    assert found == [PING, PING]
    await soon(gateway.service.cancelled.wait())


async def test_every_line_is_an_object(gateway: Gateway) -> None:
    """Requests for event ids and for the cost change nothing in a stream that has no events and no comments."""
    headers = {"x-sluice-event-ids": "true", "x-sluice-cost": "true"}
    answer = await gateway.http.post("/api/chat", json=BODY, headers=headers)
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert "".join(line["message"]["content"] for line in lines) == "Hello"
    assert [line["done"] for line in lines] == [*[False] * (len(lines) - 1), True]
    resumed = await gateway.http.post("/api/chat", json=BODY, headers={"last-event-id": "a.1.0.b"})
    assert (resumed.status_code, resumed.json()["error"].partition(":")[0]) == (400, "last-event-id")


@pytest.mark.parametrize("path", ["/", "/api/tags", "/api/version"])
async def test_server_is_found_by_head(gateway: Gateway, path: str) -> None:
    """Programs look for a server with HEAD."""
    assert (await gateway.http.head(path)).status_code == 200


@pytest.mark.parametrize(("method", "path"), MANAGED)
async def test_operations_on_models_are_rejected(gateway: Gateway, method: str, path: str) -> None:
    """The error says what to do instead, but only to callers with a valid key."""
    for key, status in (("known", 400), ("other", 401)):
        headers = {"authorization": f"Bearer {key}"}
        answer = await gateway.http.request(method, path, json={"model": "m"}, headers=headers)
        assert (answer.status_code, list(answer.json())) == (status, ["error"])


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("GET", "/api", 404, str),
        ("POST", "/api/unknown", 404, str),
        ("GET", "/api/chat", 405, str),
        ("POST", "/api/v1/unknown", 404, dict),  # a base URL of OpenAI's clients for other servers
        ("GET", "/apis", 404, dict),
    ],
)
async def test_errors_of_unknown_paths_are_texts(
    gateway: Gateway, method: str, path: str, status: int, kind: type
) -> None:
    """Ollama's clients show `error` as it is; other clients get their own form."""
    answer = await gateway.http.request(method, path)
    assert (answer.status_code, type(answer.json()["error"])) == (status, kind)
    assert path in answer.text


async def test_unknown_paths_of_databricks_keep_its_form(gateway: Gateway) -> None:
    answer = await gateway.http.get("/api/2.0/unknown")
    assert (answer.status_code, answer.json()["error_code"]) == (404, "ENDPOINT_NOT_FOUND")
