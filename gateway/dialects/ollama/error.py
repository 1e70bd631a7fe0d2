"""Errors of Ollama's API: `{"error"}`, also as the last line of a failed stream."""

from __future__ import annotations

from typing import Final

import orjson

from gateway.dialects.seam.error_response import ErrorResponse
from gateway.dialects.seam.failure import Failure, Reason

OVERLOADED: Final = 503  # Ollama's status for a full queue


class OllamaErrors:
    """The part of a translator that creates error responses."""

    def error_response(self, failure: Failure) -> ErrorResponse:
        """Return the error body with its status."""
        status = OVERLOADED if failure.reason is Reason.QUEUE_FULL else failure.status
        return ErrorResponse(status, error_body(failure))


def error_body(failure: Failure) -> bytes:
    """Return the body of an error."""
    return orjson.dumps({"error": failure.message})
