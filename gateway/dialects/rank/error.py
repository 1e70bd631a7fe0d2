"""Errors of reranking: one body with the fields of each API's clients.

Cohere's clients read `message`, LangChain's client for Jina reads `detail`, and vLLM's clients read `error`.
"""

from __future__ import annotations

from typing import Final

import orjson

from gateway.dialects.seam.error_response import ErrorResponse
from gateway.dialects.seam.failure import Failure

_TYPES: Final = {  # reasons whose type is not BadRequestError
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    405: "MethodNotAllowedError",
    413: "RequestTooLargeError",
    429: "RateLimitError",
    499: "RequestCancelled",
    500: "InternalServerError",
    501: "NotImplementedError",
    503: "ServiceUnavailableError",
    504: "TimeoutError",
}


class RankErrors:
    """The part of a translator that creates error responses."""

    def error_response(self, failure: Failure) -> ErrorResponse:
        """Return the error body with its status."""
        error = {
            "message": failure.message,
            "type": _TYPES.get(failure.status, "BadRequestError"),
            "param": failure.field,
            "code": failure.status,
        }
        body = {"id": failure.request_id, "message": failure.message, "detail": failure.message, "error": error}
        return ErrorResponse(failure.status, orjson.dumps(body))
