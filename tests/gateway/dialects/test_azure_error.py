"""Azure's error responses: status, code, and the path and value of an invalid field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects.azure.chat import AzureTranslator
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest
from tests.gateway.dialects.azure_requests import VERSION, error_of, http_request

DEEP = b'{"temperature": 9, "tools": ' + b"[" * 5000 + b"]" * 5000 + b"}"


def detail(failure: Failure, body: bytes = b"{}") -> object:
    """Return `detail` of the error response to `body`."""
    translator = AzureTranslator()
    with pytest.raises(Failure, match="must have the form"):
        translator.parse(HttpRequest(body, query={"api-version": "new"}))
    return json.loads(translator.error_response(failure).body)["detail"]


def test_detail_is_empty_for_an_error_without_a_field() -> None:
    """An error about no field has an empty detail without anything from the body."""
    assert detail(Failure(Reason.TEMPLATE_REFUSED, "no")) == {"loc": [], "value": ""}


def test_detail_has_no_value_for_a_body_nested_too_deeply() -> None:
    """The error for a body nested too deeply has no value."""
    assert detail(Failure.of_field("temperature", "no"), DEEP) == {"loc": ["temperature"], "value": ""}


ERRORS = [
    (401, Reason.UNAUTHENTICATED, 401, "unauthorized", {"error", "message", "status"}),
    (403, Reason.PERMISSION_DENIED, 403, "forbidden", {"error", "message", "status", "code", "param"}),
    (404, Reason.MODEL_NOT_FOUND, 404, "unknown_model", {"error", "message", "status"}),
    (404, Reason.DEPLOYMENT_NOT_FOUND, 404, "unknown_deployment", {"error", "message", "status"}),
    (404, Reason.ROUTE_NOT_FOUND, 404, "not_found", {"error", "message", "status"}),
    (400, Reason.UNSUPPORTED_TASK, 404, "unsupported_modality", {"error", "message", "status"}),
    (400, Reason.INVALID_FIELD, 422, "invalid_value", {"error", "message", "status", "code", "detail"}),
    (400, Reason.PROMPT_TOO_LONG, 422, "context_length_exceeded", {"error", "message", "status", "code", "detail"}),
    (400, Reason.UNSUPPORTED_MODALITY, 422, "unprocessable_entity", {"error", "message", "status", "code", "detail"}),
    (400, Reason.MALFORMED_JSON, 400, "malformed_json", {"error", "message", "status", "code", "param"}),
    (429, Reason.QUEUE_FULL, 429, "too_many_requests", {"error", "message", "status"}),
    (499, Reason.CALLER_LEFT, 499, "client_closed_request", {"error", "message", "status", "code", "param"}),
    (500, Reason.INTERNAL, 500, "internal_server_error", {"error", "message", "status", "code", "param"}),
    (503, Reason.DRAINING, 503, "service_unavailable", {"error", "message", "status", "code", "param"}),
    (504, Reason.DEADLINE_EXCEEDED, 504, "gateway_timeout", {"error", "message", "status", "code", "param"}),
]


@pytest.mark.parametrize(("status", "reason", "expected", "code", "keys"), ERRORS, ids=[row[1].name for row in ERRORS])
def test_error_has_its_documented_shape(status: int, reason: Reason, expected: int, code: str, keys: set[str]) -> None:
    """Each status has its fields, and the header has the code."""
    failure = Failure(reason, "because")
    answer = error_of(failure)
    assert (failure.status, answer[0], answer[2]) == (status, expected, code)
    assert set(answer[1]) == keys
    assert (answer[1]["message"], answer[1]["status"]) == ("because", expected)


@pytest.mark.parametrize(
    ("fields", "field", "value"),
    [
        ({"temperature": 3}, "temperature", "3"),
        ({"messages": [{"role": "user", "content": "naïve"}]}, "messages.0.content", "naïve"),
        ({"response_format": {"type": "json_object"}}, "response_format", '{"type": "json_object"}'),
        ({"stop": ["a", "b" * 300]}, "stop.1", "b" * 256),
        ({}, "max_tokens", ""),
        ({}, "messages.7.content", ""),
        ({}, "messages.x", ""),
    ],
)
def test_422_has_path_and_value(fields: dict[str, Any], field: str, value: str) -> None:
    """`detail` has the caller's path and the value sent there, truncated if long."""
    _, body, _ = error_of(Failure.of_field(field, "is wrong"), http_request(**fields))
    assert body["detail"] == {"loc": field.split("."), "value": value}
    assert body["message"] == f"{field}: is wrong"


def test_malformed_body_has_no_value() -> None:
    """A body that is not JSON is rejected with 400."""
    translator = AzureTranslator()
    with pytest.raises(Failure) as caught:
        translator.parse(HttpRequest(b'{"messages": [', query=VERSION))
    assert translator.error_response(caught.value).status == 400


def test_azures_own_clients_get_an_error_object() -> None:
    """Their exceptions read code and message there; others get the documented text."""
    failure = Failure.of_field("temperature", "is wrong")
    documented = error_of(failure)[1]
    expected = error_of(failure, http_request({"user-agent": "azsdk-python-ai-inference/1.0.0b9 Python/3.11.7"}))[1]
    assert documented["error"] == "Unprocessable Entity"
    assert expected.pop("error") == {
        "code": "invalid_value", "message": "temperature: is wrong", "target": "temperature", "details": [],
    }  # fmt: skip
    assert expected == {name: value for name, value in documented.items() if name != "error"}
