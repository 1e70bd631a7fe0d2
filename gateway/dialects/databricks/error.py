"""Errors of Databricks: `{"error_code", "message"}`.

Its SDK maps the codes to typed exceptions. A failed stream's last event also has the same under `error`, where
OpenAI's clients look for it.
"""

from __future__ import annotations

from typing import Final

import orjson

from gateway.dialects.seam.error_response import ErrorResponse
from gateway.dialects.seam.failure import Failure, Reason

_BY_STATUS: Final = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "RESOURCE_DOES_NOT_EXIST",
    409: "RESOURCE_ALREADY_EXISTS",
    429: "REQUEST_LIMIT_EXCEEDED",
    499: "CANCELLED",
    500: "INTERNAL_ERROR",
    501: "NOT_IMPLEMENTED",
    503: "TEMPORARILY_UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_BY_REASON: Final = {
    Reason.ROUTE_NOT_FOUND: "ENDPOINT_NOT_FOUND",  # Databricks uses this code for unknown paths of its API, too
    Reason.METHOD_NOT_ALLOWED: "METHOD_NOT_ALLOWED",
    Reason.ENDPOINT_CHANGED: "ABORTED",
    Reason.ENDPOINT_READ_ONLY: "INVALID_STATE",
    Reason.CANNOT_RESUME: "INVALID_STATE",
    Reason.TOO_MANY_ENDPOINTS: "INVALID_STATE",
}


class DatabricksErrors:
    """The part of a translator that creates error responses."""

    def error_response(self, failure: Failure) -> ErrorResponse:
        """Return the error response for a failure."""
        body = {"error_code": _to_code(failure), "message": failure.message}
        return ErrorResponse(failure.status, orjson.dumps(body))


class DatabricksStream:
    """The part of an encoder that defines a stream's pings and errors."""

    ping = b""  # mlflow's client fails on lines other than data

    def error(self, failure: Failure) -> bytes:
        """Return the last event of a failed stream; no `[DONE]` follows."""
        code, message = _to_code(failure), failure.message
        body = {"error_code": code, "message": message, "error": {"code": code, "message": message}}
        return b"data: " + orjson.dumps(body) + b"\n\n"


def _to_code(failure: Failure) -> str:
    if failure.reason in _BY_REASON:
        return _BY_REASON[failure.reason]
    otherwise = "BAD_REQUEST" if failure.field is None else "INVALID_PARAMETER_VALUE"
    return _BY_STATUS.get(failure.status, otherwise)
