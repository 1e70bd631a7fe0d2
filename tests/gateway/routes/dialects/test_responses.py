"""Responses over HTTP and gRPC: streamed and whole, failing before and after the first event, and cancelled."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import grpc
import httpx
import openai
import pytest

from gateway.upstream.affinity import affinity_key
from tests.gateway import fakes
from tests.gateway.conftest import Gateway, soon, until
from tests.gateway.response_fakes import GOLDEN, FakeResponseService, recorded

Code = grpc.StatusCode
PATHS = ["/v1/responses", "/serving-endpoints/responses"]


@pytest.fixture
async def service() -> AsyncIterator[FakeResponseService]:
    """A service with responses."""
    service = FakeResponseService()
    server, service.port = await fakes.start(service)
    yield service
    await server.stop(None)


async def ask(gateway: Gateway, path: str = PATHS[0], **fields: Any) -> httpx.Response:
    return await gateway.http.post(path, json={"model": "m", "input": "hi", **fields})


def data_of(answer: httpx.Response) -> list[dict[str, Any]]:
    """Return the JSON of a stream's events."""
    lines = [line for line in answer.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


@pytest.mark.parametrize("path", PATHS)
async def test_stream_bytes(gateway: Gateway, path: str) -> None:
    """A stream is the recorded events, each with its `event:` line; no `[DONE]` follows."""
    answer = await ask(gateway, path, stream=True)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.content == (GOLDEN / "text.sse.txt").read_bytes()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("stream", [None, False])
async def test_response_is_unstreamed_by_default(gateway: Gateway, path: str, stream: bool | None) -> None:  # noqa: FBT001
    """Without `stream: true` the answer is one object, whatever the caller accepts."""
    answer = await gateway.http.post(
        path, json={"model": "m", "input": "hi", "stream": stream}, headers={"accept": "*/*"}
    )
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    body = answer.json()
    assert (body["object"], body["status"], body["id"]) == ("response", "completed", "resp_0af3")
    assert body["output"][0]["content"][0]["text"] == "Hello"


async def test_truncated_response_ends_with_response_incomplete(gateway: Gateway, service: FakeResponseService) -> None:
    """A truncated response has its own terminal event and is not a failed stream."""
    service.events = recorded("cut_off")
    *_, last = data_of(await ask(gateway, stream=True))
    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert (await ask(gateway)).json()["status"] == "incomplete"


async def test_request_reaches_service(gateway: Gateway, service: FakeResponseService) -> None:
    """The service receives the request and its routing metadata."""
    answer = await ask(gateway, model="org/a", prompt_cache_key="user 1", max_output_tokens=5)
    assert answer.status_code == 200
    (request,) = service.response_requests
    assert (request.model, request.max_output_tokens) == ("org/a", 5)
    assert service.metadata[0]["x-sluice-model"] == "org%2Fa"
    assert service.metadata[0]["x-sluice-affinity"] == affinity_key(request, None, "user 1")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", PATHS)
async def test_error_before_the_first_event_is_a_status(
    gateway: Gateway, service: FakeResponseService, path: str, *, stream: bool
) -> None:
    """An early error has the HTTP status, the dialect's body, and the caller's field name."""
    details = [fakes.error_info("UNSUPPORTED_MODALITY"), fakes.bad_request(**{"input[0].message.content[0]": "no"})]
    service.events = [fakes.Status(Code.INVALID_ARGUMENT, "no", *details)]
    answer = await ask(gateway, path, stream=stream, input=[{"role": "user", "content": "hi"}])
    assert answer.status_code == 400
    body = answer.json()
    if path == PATHS[0]:
        assert (body["error"]["param"], body["error"]["code"]) == ("input.0.content", "unsupported_value")
    else:
        assert body == {"error_code": "INVALID_PARAMETER_VALUE", "message": "input.0.content: no"}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("stream", [False, True])
async def test_overload_has_a_retry_delay(
    gateway: Gateway, service: FakeResponseService, path: str, *, stream: bool
) -> None:
    """An overload gets 429 with the service's retry delay, streamed or not."""
    service.events = [fakes.Status(Code.RESOURCE_EXHAUSTED, "full", fakes.retry_info(2.5))]
    answer = await ask(gateway, path, stream=stream)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "3")


@pytest.mark.parametrize("path", PATHS)
async def test_failure_after_the_first_event_is_response_failed(
    gateway: Gateway, service: FakeResponseService, path: str
) -> None:
    """A late failure is one `response.failed` with error, usage and completed items, which ends the stream."""
    begun = recorded("text")[:5]
    usage = type(begun[0])(sequence_number=5, usage=fakes.USAGE)
    service.events = [*begun, usage, fakes.Status(Code.INTERNAL, "secret", fakes.error_info("INTERNAL", "other"))]
    answer = await ask(gateway, path, stream=True)
    assert answer.status_code == 200
    sent_data = data_of(answer)
    assert [data["sequence_number"] for data in sent_data] == list(range(6))
    assert [data["type"] for data in sent_data].count("response.failed") == 1
    response = sent_data[-1]["response"]
    assert (response["status"], response["error"]["code"]) == ("failed", "server_error")
    assert response["usage"]["output_tokens"] == fakes.USAGE.completion_tokens
    assert "secret" not in answer.text


async def test_response_stream_without_a_terminal_event_has_failed(
    gateway: Gateway, service: FakeResponseService
) -> None:
    """A stream without its terminal event has failed, whatever its status."""
    service.events = recorded("text")[:-1]
    assert data_of(await ask(gateway, stream=True))[-1]["type"] == "response.failed"


@pytest.mark.parametrize(
    ("call", "body", "status"),
    [
        ("GET responses", b"", 405),
        ("GET responses/resp_1/output", b"", 404),
        ("POST responses", b"{", 400),
        ("POST responses", b"[]", 400),
    ],
)
@pytest.mark.parametrize("base", ["/v1", "/serving-endpoints"])
async def test_gateway_errors_have_the_format_of_the_path(
    gateway: Gateway, base: str, call: str, body: bytes, status: int
) -> None:
    """Errors that the gateway finds have the dialect of the path."""
    method, path = call.split()
    headers = {"content-type": "application/json"}
    answer = await gateway.http.request(method, f"{base}/{path}", content=body, headers=headers)
    assert answer.status_code == status
    assert set(answer.json()) == ({"error"} if base == "/v1" else {"error_code", "message"})


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("num_events", [0, 2, 5])
async def test_client_disconnect_cancels(
    gateway: Gateway, service: FakeResponseService, num_events: int, *, stream: bool
) -> None:
    """Closing the connection cancels the call, before and after the first event and the first text."""
    service.events = [*recorded("text")[:num_events], None]
    body = json.dumps({"model": "m", "input": "hi", "stream": stream}).encode()
    head = f"POST /v1/responses HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(head.encode() + b"\r\n\r\n" + body)
    await soon(service.begun.wait())
    await until(lambda: service.num_sent == num_events)
    assert not service.cancelled.is_set()
    writer.close()
    await soon(service.cancelled.wait())


async def test_openai_client_gets_response_failed(gateway: Gateway, service: FakeResponseService) -> None:
    """OpenAI's client gets the failure as an event, and its stream ends."""
    service.events = [*recorded("reasoning")[:4], fakes.Status(Code.UNAVAILABLE, "gone")]
    base_url = f"http://127.0.0.1:{gateway.port}/v1"
    async with openai.AsyncOpenAI(base_url=base_url, api_key="unused", max_retries=0) as client:
        stream = await client.responses.create(model="m", input="hi", stream=True)
        kinds = [event.type async for event in stream]
        last: Any = kinds[-1]
        assert last == "response.failed"
        with pytest.raises(openai.BadRequestError) as caught:
            await client.responses.create(model="m", input="hi", truncation="never")  # type: ignore[call-overload]
        assert caught.value.param == "truncation"
