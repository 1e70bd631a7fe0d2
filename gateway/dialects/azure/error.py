"""Errors of the Azure AI model inference API: the body by status, and the header that programs read.

422 is a body that has the right form, but a value that can't be served. Field names are the caller's. The API documents
`error` as a text; Azure's own clients find an object there, whose code and message their exceptions have, so those get
one.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any, Final

import orjson

from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.refusal import Refusal

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
_CODES: Final = {  # where the code is not the status' own name
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
_PHRASES: Final = {  # of statuses that no standard names, or that Python's versions name differently
    413: "Request Entity Too Large",
    422: "Unprocessable Entity",
    499: "Client Closed Request",
}
_MAX_VALUE_LENGTH: Final = 256  # of the offending value's text


_CLIENTS: Final = "azsdk-"  # how the user agent of Azure's own clients begins
_NOTHING: Final = HttpRequest(b"")


class AzureErrors:
    """The half of a translator that tells errors. `_arrival` is what arrived, as far as it did."""

    _arrival = _NOTHING

    def refuse(self, failure: Failure) -> Refusal:
        """The error body with its header."""
        status = _to_status(failure)
        headers = ((b"x-ms-error-code", _to_code(failure, status).encode()),)
        return Refusal(status, error_body(failure, self._arrival), headers)


def error_body(failure: Failure, arrival: HttpRequest = _NOTHING) -> bytes:
    """The error as JSON, with the value at fault of what arrived."""
    status = _to_status(failure)
    error: dict[str, Any] = {"error": _phrase(status), "message": failure.message, "status": status}
    if arrival.headers.get("user-agent", "").startswith(_CLIENTS):
        code = _to_code(failure, status)
        error["error"] = {"code": code, "message": failure.message, "target": failure.field, "details": []}
    if status == 422:
        loc = failure.field.split(".") if failure.field else []
        error = {
            "code": _to_code(failure, status),
            "detail": {"loc": loc, "value": _value_at(arrival.body, loc)},
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
    return _PHRASES.get(status) or HTTPStatus(status).phrase


def _value_at(body: bytes, loc: list[str]) -> str:
    """The text of the value at `loc`, cut if it is long; empty if there is none, or it can't be read."""
    if not loc:
        return ""
    try:
        value = json.loads(body)
        for name in loc:
            value = value[int(name)] if isinstance(value, list) else value[name]
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""
    return text[:_MAX_VALUE_LENGTH]
