"""Anthropic's paths over HTTP: headers, pings, and the selection of the dialect."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from tests.gateway import fakes
from tests.gateway.conftest import Gateway, soon
from tests.waiting import GUARD_S

BODY: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
VERSION = {"anthropic-version": "2023-06-01"}


@pytest.mark.parametrize("stream", [False, True])
async def test_answers_have_the_request_id_header(gateway: Gateway, *, stream: bool) -> None:
    """The request id has the name that its clients read, also in errors; the version header is optional."""
    answer = await gateway.http.post("/v1/messages", json=BODY | {"stream": stream})
    assert answer.status_code == 200, answer.text
    assert answer.headers["request-id"] == answer.headers["x-request-id"]
    full = fakes.Status(grpc.StatusCode.RESOURCE_EXHAUSTED, "", fakes.error_info("QUEUE_FULL"))
    gateway.service.script = fakes.play([full])
    refused = await gateway.http.post("/v1/messages", json=BODY | {"stream": stream})
    assert (refused.status_code, refused.headers["retry-after"]) == (529, "1")
    assert refused.json()["request_id"] == refused.headers["request-id"] == refused.headers["x-request-id"]
    gateway.service.script = fakes.play([fakes.STARTED, fakes.Status(grpc.StatusCode.INTERNAL)])
    broken = await gateway.http.post("/v1/messages", json=BODY | {"stream": True})
    assert f'"request_id":"{broken.headers["request-id"]}"' in broken.text.split("event: error")[1]


@pytest.mark.parametrize("header", ["x-api-key", "authorization"])
async def test_keys_are_passed_on(gateway: Gateway, header: str) -> None:
    """Keys of older and newer clients reach the service."""
    key = "k" if header == "x-api-key" else "Bearer k"
    await gateway.http.post("/v1/messages", json=BODY, headers={header: key})
    assert gateway.service.metadata[-1]["authorization"] == "Bearer k"


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "is_its_own"),
    [
        ("GET", "/v1/messages", {}, 405, True),
        ("GET", "/v1/messages/batches", {}, 404, True),
        ("GET", "/v1/files?beta=true", VERSION, 404, True),
        ("GET", "/v1/skills", {}, 404, False),
        ("GET", "/v1/models/x", VERSION, 404, True),
        ("GET", "/v1/models/x", {}, 404, False),
        ("GET", "/v1/models?limit=0", VERSION, 400, True),
        ("GET", "/v1/models?limit=0", {}, 200, False),
        ("GET", "/v1/models", VERSION, 200, True),
    ],
)
async def test_path_or_client_header_selects_anthropics_error_format(
    gateway: Gateway, method: str, path: str, headers: dict[str, str], status: int, *, is_its_own: bool
) -> None:
    """Its own paths, and any other path for its clients, have its error format."""
    answer = await gateway.http.request(method, path, headers=headers)
    assert answer.status_code == status
    assert ("request-id" in answer.headers) == is_its_own
    if status != 200:
        assert (answer.json().get("type") == "error") == is_its_own
    else:
        assert ("has_more" in answer.json()) == is_its_own


@pytest.mark.parametrize("flags", [["--keep-alive-interval-s", "0.05"]])
async def test_idle_stream_has_ping_events(gateway: Gateway) -> None:
    """An idle stream has ping events after `message_start`."""
    gateway.service.script = fakes.play([fakes.STARTED, None])
    found = b""
    async with asyncio.timeout(GUARD_S):
        async with gateway.http.stream("POST", "/v1/messages", json=BODY | {"stream": True}) as answer:
            async for piece in answer.aiter_raw():
                found += piece
                if found.count(b'event: ping\ndata: {"type":"ping"}\n\n') == 2:
                    break
    assert found.startswith(b"event: message_start\n")
    await soon(gateway.service.cancelled.wait())


async def test_count(gateway: Gateway) -> None:
    """An RPC that the service doesn't implement gets an error in the dialect's format."""
    body = {name: value for name, value in BODY.items() if name != "max_tokens"}
    answer = await gateway.http.post("/v1/messages/count_tokens", json=body)
    assert (answer.status_code, answer.json()["error"]["type"]) == (501, "api_error")
