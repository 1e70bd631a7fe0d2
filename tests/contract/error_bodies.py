"""The error bodies of each dialect, read into one form."""

from __future__ import annotations

from dataclasses import dataclass

import httpx


@dataclass(frozen=True)
class ErrorBody:
    """The content of an error body: its message, and the invalid field if the dialect reports it."""

    message: str
    field: str | None = None


def openai(answer: httpx.Response) -> ErrorBody:
    """Read `{"error": {"message", "type", "param", "code"}}`."""
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"]
    return ErrorBody(error["message"], error["param"])


def databricks(answer: httpx.Response) -> ErrorBody:
    """Read `{"error_code", "message"}`."""
    body = answer.json()
    assert set(body) == {"error_code", "message"}
    assert body["error_code"].isupper()
    return ErrorBody(body["message"])


def azure(answer: httpx.Response) -> ErrorBody:
    """Read `{"error", "message", "status"}`, further fields by status, and the header."""
    body = answer.json()
    assert body["status"] == answer.status_code
    assert body["error"]
    assert answer.headers["x-ms-error-code"]
    if answer.status_code == 422:
        return ErrorBody(body["message"], ".".join(map(str, body["detail"]["loc"])))
    return ErrorBody(body["message"])


def triton(answer: httpx.Response) -> ErrorBody:
    """Read `{"error", "error_type"}`."""
    body = answer.json()
    assert set(body) == {"error", "error_type"}
    assert body["error_type"]
    return ErrorBody(body["error"])


def anthropic(answer: httpx.Response) -> ErrorBody:
    """Read `{"type": "error", "error": {"type", "message"}, "request_id"}`, and the id in the header."""
    body = answer.json()
    assert set(body) == {"type", "error", "request_id"}
    assert (body["type"], set(body["error"])) == ("error", {"type", "message"})
    assert body["request_id"] == answer.headers["request-id"] == answer.headers["x-request-id"]
    return ErrorBody(body["error"]["message"])


def ranking(answer: httpx.Response) -> ErrorBody:
    """Read `{"id", "message", "detail", "error": {"message", "type", "param", "code"}}`, with the text three times."""
    body = answer.json()
    error = body["error"]
    assert (set(body), set(error)) == ({"id", "message", "detail", "error"}, {"message", "type", "param", "code"})
    assert body["message"] == body["detail"] == error["message"]
    assert (body["id"], error["code"]) == (answer.headers["x-request-id"], answer.status_code)
    return ErrorBody(error["message"], error["param"])


def ollama(answer: httpx.Response) -> ErrorBody:
    """Read `{"error"}`."""
    body = answer.json()
    assert set(body) == {"error"}
    return ErrorBody(body["error"])


def cohere(answer: httpx.Response) -> ErrorBody:
    """Read `{"id", "message"}`."""
    body = answer.json()
    assert set(body) == {"id", "message"}
    assert body["id"] == answer.headers["x-request-id"]
    return ErrorBody(body["message"])
