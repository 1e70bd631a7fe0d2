"""Errors of Anthropic's API: the body, and the last event of a stream that failed.

A full queue is `overloaded_error`, status 529, as clients of the API know it; what a caller's own limits refuse is
`rate_limit_error`, status 429.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.refusal import Refusal

OVERLOADED: Final = 529
_TYPES: Final = {  # where the type is not invalid_request_error
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
    """The half of a translator that tells errors."""

    def refuse(self, failure: Failure) -> Refusal:
        """The error body, with its status."""
        return Refusal(_status(failure), error_body(failure))


def error_event(failure: Failure) -> bytes:
    """The last event of a stream that failed."""
    return b"event: error\ndata: " + error_body(failure) + b"\n\n"


def error_body(failure: Failure) -> bytes:
    """The body of an error."""
    error: dict[str, Any] = {
        "type": _TYPES.get(_status(failure), "invalid_request_error"),
        "message": _message(failure),
    }
    if failure.reason is Reason.UNSUPPORTED_FIELD and failure.field == "thread":
        # By this, the SDK's tool runner learns to send all messages instead.
        error["details"] = {"error_code": "thread_unsupported_request"}
    return orjson.dumps({"type": "error", "error": error, "request_id": failure.request_id})


def _status(failure: Failure) -> int:
    return OVERLOADED if failure.reason is Reason.QUEUE_FULL else failure.status


def _message(failure: Failure) -> str:
    if failure.reason is not Reason.PROMPT_TOO_LONG:
        return failure.message
    # Programs that shorten a conversation and ask again know it by these words.
    told = failure.values
    numbers = f"{told['num_prompt_tokens']} tokens > {told['limit']} maximum; " if "num_prompt_tokens" in told else ""
    return f"prompt is too long: {numbers}{failure.message}"
