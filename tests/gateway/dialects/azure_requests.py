"""Chat requests of Azure's dialect, and its error responses."""

from __future__ import annotations

import json
from typing import Any

from gateway.dialects.azure.chat import AzureTranslator
from gateway.dialects.seam.failure import Failure
from gateway.dialects.seam.http_request import HttpRequest

VERSION = {"api-version": "2024-05-01-preview"}
MESSAGES = [{"role": "user", "content": "hi"}]


def http_request(
    headers: dict[str, str] | None = None, query: dict[str, str] | None = None, **fields: Any
) -> HttpRequest:
    """Return a valid chat request changed by `fields`."""
    body = json.dumps({"messages": MESSAGES, **fields}).encode()
    return HttpRequest(body, headers or {}, query=VERSION if query is None else query)


def error_of(failure: Failure, request: HttpRequest | None = None) -> tuple[int, dict[str, Any], str]:
    """Return status, body and error code of the error response to `sent`."""
    translator = AzureTranslator()
    translator.parse(request or http_request())
    rejection = translator.error_response(failure)
    return rejection.status, json.loads(rejection.body), dict(rejection.headers)[b"x-ms-error-code"].decode()
