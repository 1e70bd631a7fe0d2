"""Errors of the service before and after the first event."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import grpc
import httpx
import pytest
from sluice.v1 import chat_pb2

from tests.gateway import fakes
from tests.gateway.conftest import Gateway, chat_body, soon, until

Code = grpc.StatusCode
STATUSES = [  # API.md 1.4
    (Code.INVALID_ARGUMENT, 400, "invalid_request_error", "invalid_value"),
    (Code.OUT_OF_RANGE, 400, "invalid_request_error", "invalid_value"),
    (Code.FAILED_PRECONDITION, 400, "invalid_request_error", "invalid_value"),
    (Code.UNAUTHENTICATED, 401, "invalid_request_error", "invalid_api_key"),
    (Code.PERMISSION_DENIED, 403, "permission_error", None),
    (Code.NOT_FOUND, 404, "invalid_request_error", "model_not_found"),
    (Code.ALREADY_EXISTS, 409, "invalid_request_error", None),
    (Code.RESOURCE_EXHAUSTED, 429, "rate_limit_error", "rate_limit_exceeded"),
    (Code.CANCELLED, 503, "server_error", None),  # gRPC ends calls that the service has not taken up
    (Code.UNAVAILABLE, 503, "server_error", None),
    (Code.DEADLINE_EXCEEDED, 504, "server_error", "deadline_exceeded"),
    (Code.UNIMPLEMENTED, 501, "server_error", None),
    (Code.INTERNAL, 500, "server_error", None),
    (Code.UNKNOWN, 500, "server_error", None),
    (Code.DATA_LOSS, 500, "server_error", None),
]


def error_of(answer: httpx.Response) -> dict[str, Any]:
    """Return the error of a rejected request, or of a stream's last event."""
    if answer.headers["content-type"] == "application/json":
        body: dict[str, dict[str, Any]] = answer.json()
        return body["error"]
    *_, last = answer.text.removesuffix("\n\n").split("\n\n")
    body = json.loads(last.removeprefix("data: "))
    return body["error"]


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("code", "status", "kind", "name"), STATUSES, ids=[row[0].name for row in STATUSES])
async def test_status_before_the_first_event(
    gateway: Gateway, code: grpc.StatusCode, status: int, kind: str, name: str | None, *, stream: bool
) -> None:
    """A status becomes an HTTP status, streamed or whole, without texts that are not the service's."""
    gateway.service.script = fakes.play([fakes.Status(code, "ipv4:10.0.0.1 said no")])
    answer = await gateway.chat(stream=stream)
    assert answer.status_code == status
    error = error_of(answer)
    assert (error["type"], error["code"]) == (kind, name)
    assert "10.0.0.1" not in error["message"]
    assert ("retry-after" in answer.headers) == (status in {429, 503})
    gateway.service.script = fakes.play(fakes.HELLO)
    assert (await gateway.chat(stream=stream)).status_code == 200


@pytest.mark.parametrize(("code", "status", "kind", "name"), STATUSES, ids=[row[0].name for row in STATUSES])
async def test_status_after_the_first_event(
    gateway: Gateway, code: grpc.StatusCode, status: int, kind: str, name: str | None
) -> None:
    """A status after the first event becomes one last event in the error format, without [DONE]."""
    gateway.service.script = fakes.play([fakes.STARTED, fakes.text("a"), fakes.Status(code, "no")])
    answer = await gateway.chat(stream=True)
    assert answer.status_code == 200
    error = error_of(answer)
    assert (error["type"], error["code"]) == (kind, name)
    assert answer.text.count('"error"') == 1
    assert "[DONE]" not in answer.text


@pytest.mark.parametrize(
    ("reason", "name"),
    [
        ("PROMPT_TOO_LONG", "context_length_exceeded"),
        ("UNSUPPORTED_FEATURE", "unsupported_parameter"),
        ("NEW", "invalid_value"),
    ],
)
async def test_service_text_and_reason_are_reported(gateway: Gateway, reason: str, name: str) -> None:
    """The service's text reaches the caller, and its reason selects the code; an unknown reason is accepted."""
    bad = fakes.bad_request(messages="the prompt has 9 tokens; the limit is 8")
    status = fakes.Status(Code.INVALID_ARGUMENT, "too long", fakes.error_info(reason), bad)
    gateway.service.script = fakes.play([status])
    error = error_of(await gateway.chat())
    assert error["message"] == "messages: the prompt has 9 tokens; the limit is 8"
    assert (error["param"], error["code"]) == ("messages", name)


async def test_unknown_model(gateway: Gateway) -> None:
    """An unknown model is OpenAI's model_not_found with the service's text."""
    info = fakes.error_info("MODEL_NOT_FOUND", model="m")
    gateway.service.script = fakes.play([fakes.Status(Code.NOT_FOUND, "the model 'm' does not exist", info)])
    answer = await gateway.chat(stream=True)
    assert answer.status_code == 404
    assert answer.json()["error"] == {
        "message": "the model 'm' does not exist",
        "type": "invalid_request_error",
        "param": "model",
        "code": "model_not_found",
    }


async def test_text_of_a_status_from_another_domain_is_not_reported(gateway: Gateway) -> None:
    """A status's text reaches callers only with an ErrorInfo of the service's domain."""
    info = fakes.error_info("MODEL_NOT_FOUND", domain="proxy.example")
    gateway.service.script = fakes.play([fakes.Status(Code.INTERNAL, "secret", info)])
    error = error_of(await gateway.chat())
    assert error["message"] == "internal error"
    assert error["code"] is None


async def test_retry_time(gateway: Gateway) -> None:
    """RetryInfo is sent in whole seconds, rounded up, and in milliseconds."""
    status = fakes.Status(
        Code.RESOURCE_EXHAUSTED, "the queue is full", fakes.error_info("QUEUE_FULL"), fakes.retry_info(1.25)
    )
    gateway.service.script = fakes.play([status])
    answer = await gateway.chat()
    assert answer.status_code == 429
    assert (answer.headers["retry-after"], answer.headers["retry-after-ms"]) == ("2", "1250")
    assert answer.json()["error"]["message"] == "the queue is full"


@pytest.mark.parametrize(
    ("fields", "path", "param"),
    [
        ({}, "sampling.temperature", "temperature"),
        ({}, "sampling.logit_bias[5]", "logit_bias.5"),
        ({"max_tokens": 1}, "stopping.max_tokens", "max_tokens"),
        ({"max_completion_tokens": 1}, "stopping.max_tokens", "max_completion_tokens"),
        ({"stop": "x"}, "stopping.stop[0]", "stop"),
        ({"stop": ["x"]}, "stopping.stop[0]", "stop.0"),
        ({}, "messages[0].content[0].text", "messages.0.content"),
        ({}, "messages[0].content", "messages.0.content"),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]},
            "messages[0].content[0].text",
            "messages.0.content.0.text",
        ),
        ({}, "messages[0].reasoning", "messages.0.reasoning_content"),
        ({}, "messages[2].tool_calls[1].function.name", "messages.2.tool_calls.1.function.name"),
        ({"logprobs": True, "top_logprobs": 3}, "logprobs.top_logprobs", "top_logprobs"),
        ({}, "output_constraint.json_schema.schema", "response_format.json_schema.schema"),
        ({}, "output_constraint.json_object", "response_format"),
        ({}, "output_constraint", "response_format"),
        ({}, "tool_choice.mode", "tool_choice"),
        ({}, "tool_choice.function_name", "tool_choice.function.name"),
        ({}, "tools[3].function.parameters", "tools.3.function.parameters"),
        ({}, "n", "n"),
    ],
)
async def test_fields_have_the_callers_names(gateway: Gateway, fields: dict[str, Any], path: str, param: str) -> None:
    """A violation is reported with the caller's field names."""
    bad = fakes.bad_request(**{path: "is wrong"})
    gateway.service.script = fakes.play(
        [fakes.Status(Code.INVALID_ARGUMENT, "", fakes.error_info("INVALID_FIELD"), bad)]
    )
    error = error_of(await gateway.chat(**fields))
    assert error["param"] == param
    assert error["message"] == f"{param}: is wrong"


@pytest.mark.parametrize("events", [[], [fakes.STARTED], [fakes.STARTED, fakes.text("a"), fakes.finished()]])
async def test_stream_without_a_terminal_event_ends_with_an_error(
    gateway: Gateway, events: list[chat_pb2.StreamChatResponse]
) -> None:
    """A stream that ends with OK but without `completed` is incomplete."""
    gateway.service.script = fakes.play(events)
    answer = await gateway.chat(stream=True)
    assert answer.status_code == (200 if events else 500)
    assert error_of(answer)["message"] == "the answer ended unexpectedly"
    assert "[DONE]" not in answer.text


async def test_status_after_the_end_is_not_reported(gateway: Gateway) -> None:
    """A status after the terminal event of a stream is not reported."""
    gateway.service.script = fakes.play([*fakes.HELLO, fakes.Status(Code.INTERNAL, "no")])
    answer = await gateway.chat(stream=True)
    assert answer.text.endswith("data: [DONE]\n\n")
    assert '"error"' not in answer.text


@pytest.mark.parametrize("stream", [False, True])
async def test_unexpected_answer_is_an_internal_error(gateway: Gateway, *, stream: bool) -> None:
    """An answer that can't be encoded is logged, and reported with the request id but no internal text."""
    odd = chat_pb2.ChatResponse(choices=[chat_pb2.ChatChoice()])  # without a finish reason
    event = chat_pb2.StreamChatResponse(choice_finished=chat_pb2.ChoiceFinished())
    gateway.service.script = fakes.play([fakes.STARTED, event, None] if stream else [])
    gateway.service.whole = odd
    answer = await gateway.chat(stream=stream)
    assert answer.status_code == (200 if stream else 500)
    error = error_of(answer)
    assert error["message"] == f"internal error; the request id is {answer.headers['x-request-id']}"
    assert error["type"] == "server_error"
    if stream:  # the call that continues in the background is closed
        await soon(gateway.service.cancelled.wait())


@pytest.mark.slow
@pytest.mark.parametrize("flags", [["--request-deadline-s", "0.3"]])
@pytest.mark.parametrize("stream", [False, True])
async def test_deadline(gateway: Gateway, *, stream: bool) -> None:
    """A generation above its deadline gets 504, or one last event after the first."""
    gateway.service.script = fakes.play([None])
    assert (await gateway.chat(stream=stream)).status_code == 504
    gateway.service.script = fakes.play([fakes.STARTED, None])
    answer = await gateway.chat(stream=stream)
    while stream and answer.status_code == 504:  # on a busy machine the first event may arrive after the deadline
        answer = await gateway.chat(stream=stream)
    assert answer.status_code == (200 if stream else 504)
    assert error_of(answer)["code"] == "deadline_exceeded"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("events", [[None], [fakes.STARTED, None]])
async def test_shutdown_cancels_running_requests_with_an_error(
    gateway: Gateway, events: list[chat_pb2.StreamChatResponse | None], *, stream: bool
) -> None:
    """A request that the shutdown cancels gets an error status or event, and its call is cancelled."""
    gateway.service.script = fakes.play(events)
    status = 200 if stream and len(events) > 1 else 503
    request = gateway.http.build_request("POST", "/v1/chat/completions", json=chat_body(stream=stream))
    asking = asyncio.create_task(gateway.http.send(request, stream=True))
    if status == 200:
        await asking  # its headers are here: the stream is open
    await until(lambda: gateway.service.begun.is_set() and gateway.service.num_sent == len(events) - 1)
    for task in gateway.server.server_state.tasks:  # as uvicorn does when the time to stop is over
        task.cancel()
    answer = await asking
    await answer.aread()
    assert answer.status_code == status
    assert error_of(answer)["message"] == "the server is shutting down"
    await soon(gateway.service.cancelled.wait())


@pytest.mark.parametrize("flags", [["--target", "127.0.0.1:1"]])
async def test_no_service(gateway: Gateway) -> None:
    """Without a service, requests and readiness get 503 with a retry delay, while liveness succeeds."""
    for stream in (False, True):
        answer = await gateway.chat(stream=stream)
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        assert "127.0.0.1" not in answer.text
    assert (await gateway.http.get("/v1/models")).status_code == 503
    unready = await gateway.http.get("/readyz")
    assert unready.status_code == 503
    assert unready.json() == {"status": "unready", "reason": "the service is not available"}
    assert (await gateway.http.get("/healthz")).status_code == 200
