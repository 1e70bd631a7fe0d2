"""Errors of Anthropic's API: the body, and the last event of a failed stream.

A full queue is `overloaded_error`, status 529, as the API documents it; a request above a caller's own limits is
`rate_limit_error`, status 429.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from gateway.dialects.seam.error_response import ErrorResponse
from gateway.dialects.seam.failure import Failure, Reason

OVERLOADED: Final = 529
_TYPES: Final = {  # reasons whose type is not invalid_request_error
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    499: "api_error",
    500: "api_error",
    501: "api_error",
    503: "api_error",
    504: "timeout_error",
    OVERLOADED: "overloaded_error",
}


class AnthropicErrors:
    """The part of a translator that creates error responses."""

    def error_response(self, failure: Failure) -> ErrorResponse:
        """Return the error body with its status."""
        return ErrorResponse(_status(failure), error_body(failure))


def error_event(failure: Failure) -> bytes:
    """Return the last event of a failed stream."""
    return b"event: error\ndata: " + error_body(failure) + b"\n\n"


def error_body(failure: Failure) -> bytes:
    """Return the body of an error."""
    error: dict[str, Any] = {
        "type": _TYPES.get(_status(failure), "invalid_request_error"),
        "message": _message(failure),
    }
    if failure.reason is Reason.UNSUPPORTED_FIELD and failure.field == "thread":
        # The SDK's tool runner matches this text, and then sends all messages.
        error["details"] = {"error_code": "thread_unsupported_request"}
    return orjson.dumps({"type": "error", "error": error, "request_id": failure.request_id})


def _status(failure: Failure) -> int:
    return OVERLOADED if failure.reason is Reason.QUEUE_FULL else failure.status


def _message(failure: Failure) -> str:
    """Return an error's text; the one about long prompts is worded as Anthropic's."""
    if failure.reason is not Reason.PROMPT_TOO_LONG:
        return failure.message
    # Clients that shorten a conversation and retry match this text.
    values = failure.values
    numbers = (
        f"{values['num_prompt_tokens']} tokens > {values['limit']} maximum; " if "num_prompt_tokens" in values else ""
    )
    return f"prompt is too long: {numbers}{failure.message}"
