"""Errors of the OpenAI style: the body, and the last event of a failed stream."""

from __future__ import annotations

from typing import Any, Final

import orjson

from gateway.dialects.seam.error_response import ErrorResponse
from gateway.dialects.seam.failure import Failure, Reason

_TYPES: Final = {  # statuses whose type is not invalid_request_error
    403: "permission_error",
    429: "rate_limit_error",
    499: "request_cancelled",
    500: "server_error",
    501: "server_error",
    503: "server_error",
    504: "server_error",
}
_QUOTA_TYPES: Final = {  # types of RATE_LIMITED, by the exceeded quantity
    "requests_per_minute": "requests",
    "input_tokens_per_minute": "tokens",
    "output_tokens_per_minute": "tokens",
}
_CODES: Final = {
    Reason.INVALID_FIELD: "invalid_value",
    Reason.PROMPT_TOO_LONG: "context_length_exceeded",
    Reason.UNSUPPORTED_MODALITY: "unsupported_value",
    Reason.TEMPLATE_REFUSED: "invalid_value",
    Reason.UNSUPPORTED_CONSTRAINT: "unsupported_value",
    Reason.UNSUPPORTED_FEATURE: "unsupported_parameter",
    Reason.UNSUPPORTED_TASK: "unsupported_value",
    Reason.TASK_NOT_SERVED: "unsupported_value",
    Reason.MODEL_NOT_FOUND: "model_not_found",
    Reason.RESPONSE_NOT_FOUND: "response_not_found",
    Reason.CONVERSATION_NOT_FOUND: "conversation_not_found",
    Reason.BATCH_NOT_FOUND: "batch_not_found",
    Reason.FILE_NOT_FOUND: "file_not_found",
    Reason.STORING_OFF: "unsupported_parameter",
    Reason.LIMIT_EXCEEDED: "invalid_value",
    Reason.QUEUE_FULL: "rate_limit_exceeded",
    Reason.RATE_LIMITED: "rate_limit_exceeded",
    Reason.CONCURRENCY_LIMITED: "rate_limit_exceeded",
    Reason.DEADLINE_EXCEEDED: "deadline_exceeded",
    Reason.INVALID_TYPE: "invalid_type",
    Reason.MISSING_FIELD: "missing_required_parameter",
    Reason.UNKNOWN_FIELD: "unknown_parameter",
    Reason.UNSUPPORTED_FIELD: "unsupported_parameter",
    Reason.METHOD_NOT_ALLOWED: "method_not_supported",
    Reason.UNAUTHENTICATED: "invalid_api_key",
    Reason.INVALID_KEY: "invalid_api_key",
    Reason.EXPIRED_KEY: "invalid_api_key",
    Reason.DISABLED_KEY: "invalid_api_key",
    Reason.INVALID_TOKEN: "invalid_api_key",
    Reason.EXPIRED_TOKEN: "invalid_api_key",
}


class OpenAIErrors:
    """The part of a translator that creates error responses."""

    def error_response(self, failure: Failure) -> ErrorResponse:
        """Return OpenAI's error body with its status."""
        return ErrorResponse(failure.status, _error_body(failure))


class OpenAIStreamErrors:
    """The part of an encoder that ends a failed stream."""

    def error(self, failure: Failure) -> bytes:
        """Return the last event of a failed stream; no `[DONE]` follows."""
        return b"data: " + _error_body(failure) + b"\n\n"


def _error_body(failure: Failure) -> bytes:
    field = failure.field
    if field is None and failure.reason is Reason.MODEL_NOT_FOUND:
        field = "model"
    code = _CODES.get(failure.reason)
    if failure.reason is Reason.RESPONSE_NOT_FOUND and field == "previous_response_id":
        code = "previous_response_not_found"  # clients send the whole conversation then
    error: dict[str, Any] = {"message": failure.message, "type": _to_type(failure), "param": field, "code": code}
    return orjson.dumps({"error": error})


def _to_type(failure: Failure) -> str:
    """Return OpenAI's error type."""
    if failure.reason is Reason.RATE_LIMITED and (kind := _QUOTA_TYPES.get(failure.values.get("quota_metric", ""))):
        return kind
    return _TYPES.get(failure.status, "invalid_request_error")
