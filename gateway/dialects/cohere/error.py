"""Errors of Cohere's API: a body with the text, and the last event of a failed stream."""

from __future__ import annotations

import orjson

from gateway.dialects.seam.error_response import ErrorResponse
from gateway.dialects.seam.failure import Failure


class CohereErrors:
    """The part of a translator that creates error responses."""

    def error_response(self, failure: Failure) -> ErrorResponse:
        """Return the error body with its status."""
        return ErrorResponse(failure.status, orjson.dumps({"id": failure.request_id, "message": failure.message}))


def error_event(failure: Failure) -> bytes:
    """Return the last event of a failed stream: the end of the message, with the error."""
    delta = {"finish_reason": "ERROR", "error": failure.message}
    return b"event: message-end\ndata: " + orjson.dumps({"type": "message-end", "delta": delta}) + b"\n\n"
