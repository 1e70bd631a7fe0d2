"""Encode errors for the Azure AI model inference API: a body whose form depends on the status, and a header.

Status 422 means a well-formed body with an unsupported value. Fields are named as in the client's body. The API
documents `error` as a string, but Azure's own clients expect an object whose code and message they copy to their
exceptions; they get an object.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any, Final

import orjson

from gateway.dialects.seam.error_response import ErrorResponse
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest

_UNPROCESSABLE: Final = frozenset(
    {
        Reason.INVALID_FIELD,
        Reason.LIMIT_EXCEEDED,
        Reason.UNSUPPORTED_FIELD,
        Reason.UNSUPPORTED_MODALITY,
        Reason.UNSUPPORTED_CONSTRAINT,
        Reason.UNSUPPORTED_FEATURE,
        Reason.CONSTRAINT_FAILED,
        Reason.TEMPLATE_REFUSED,
        Reason.PROMPT_TOO_LONG,
    }
)
_CODES: Final = {  # reasons whose code is not the name of the status
    Reason.MODEL_NOT_FOUND: "unknown_model",
    Reason.DEPLOYMENT_NOT_FOUND: "unknown_deployment",
    Reason.UNSUPPORTED_TASK: "unsupported_modality",
    Reason.TASK_NOT_SERVED: "unsupported_modality",
    Reason.PROMPT_TOO_LONG: "context_length_exceeded",
    Reason.MALFORMED_JSON: "malformed_json",
    Reason.MISSING_FIELD: "missing_parameter",
    Reason.UNKNOWN_FIELD: "extra_parameter",
    Reason.INVALID_TYPE: "invalid_type",
    Reason.INVALID_FIELD: "invalid_value",
    Reason.LIMIT_EXCEEDED: "invalid_value",
}
_PHRASES: Final = {  # names of non-standard statuses, and of those that differ between versions of Python
    413: "Request Entity Too Large",
    422: "Unprocessable Entity",
    499: "Client Closed Request",
}
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False)
_MAX_VALUE_LENGTH: Final = 256  # maximum length of the invalid value's text


_CLIENTS: Final = "azsdk-"  # prefix of the user agent of Azure's own clients
_NOTHING: Final = HttpRequest(b"")


class AzureErrors:
    """The error responses of an Azure translator, which sets `_http_request` when it has received the request."""

    _http_request = _NOTHING

    def error_response(self, failure: Failure) -> ErrorResponse:
        """Return the error response, with the error code in a header."""
        status = _to_status(failure)
        headers = ((b"x-ms-error-code", _to_code(failure, status).encode()),)
        return ErrorResponse(status, error_body(failure, self._http_request), headers)


def error_body(failure: Failure, http_request: HttpRequest = _NOTHING) -> bytes:
    """Return the JSON body of an error. For status 422 it includes the invalid value from `http_request`."""
    status = _to_status(failure)
    error: dict[str, Any] = {"error": _phrase(status), "message": failure.message, "status": status}
    if http_request.headers.get("user-agent", "").startswith(_CLIENTS):
        code = _to_code(failure, status)
        error["error"] = {"code": code, "message": failure.message, "target": failure.field, "details": []}
    if status == 422:
        loc = failure.field.split(".") if failure.field else []
        error = {
            "code": _to_code(failure, status),
            "detail": {"loc": loc, "value": _value_at(http_request.body, loc)},
            **error,
        }
    elif status not in {401, 404, 429}:
        error = {"code": _to_code(failure, status), "param": failure.field, **error}
    return orjson.dumps(error)


def _to_status(failure: Failure) -> int:
    if failure.reason is Reason.UNSUPPORTED_TASK:
        return 404
    return 422 if failure.status == 400 and failure.reason in _UNPROCESSABLE else failure.status


def _to_code(failure: Failure, status: int) -> str:
    return _CODES.get(failure.reason) or _phrase(status).lower().replace(" ", "_").replace("-", "_")


def _phrase(status: int) -> str:
    """Return a status's reason phrase."""
    return _PHRASES.get(status) or HTTPStatus(status).phrase


def _value_at(body: bytes, loc: list[str]) -> str:
    """Return the text of the value at `loc`, truncated if long; empty if it is missing or unreadable."""
    if not loc:
        return ""
    text = ""
    try:
        value = orjson.loads(body)  # on the event loop: bodies may have megabytes
        for name in loc:
            value = value[int(name)] if isinstance(value, list) else value[name]
        for piece in [value] if isinstance(value, str) else _ENCODER.iterencode(value):
            text += piece
            if len(text) >= _MAX_VALUE_LENGTH:
                break
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""
    return text[:_MAX_VALUE_LENGTH]
