"""Errors of MindIE and Triton: `{"error", "error_type"}`."""

from __future__ import annotations

from typing import Final

import orjson

from gateway.dialects.seam.error_response import ErrorResponse
from gateway.dialects.seam.failure import Failure, Reason

_TYPES: Final = {
    401: "authentication",
    403: "permission",
    404: "not_found",
    429: "overloaded",
    499: "cancelled",
    500: "generation",
    501: "unsupported",
    503: "unavailable",
    504: "timeout",
}


def to_error_body(failure: Failure) -> bytes:
    """Return the body of an error, which is also the data of a failed stream's last event."""
    kind = "unsupported" if failure.reason is Reason.UNSUPPORTED_FIELD else _TYPES.get(failure.status, "validation")
    return orjson.dumps({"error": failure.message, "error_type": kind})


class MindieErrors:
    """Creates the error responses of all paths of the dialect."""

    def error_response(self, failure: Failure) -> ErrorResponse:
        """Return the error response for a failure."""
        return ErrorResponse(failure.status, to_error_body(failure))
