"""Azure's errors: the detail of a value that can't be served, whatever the body looks like."""

from __future__ import annotations

import json

import pytest

from gateway.dialects.azure.chat import AzureTranslator
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest

DEEP = b'{"temperature": 9, "tools": ' + b"[" * 5000 + b"]" * 5000 + b"}"


def detail(failure: Failure, body: bytes = b"{}") -> object:
    """`detail` of the answer to `body`."""
    translator = AzureTranslator()
    with pytest.raises(Failure, match="must have the form"):
        translator.parse(HttpRequest(body, query={"api-version": "new"}))
    return json.loads(translator.error_response(failure).body)["detail"]


def test_detail_of_no_field_is_empty() -> None:
    """An error that is about no field has no place, and tells nothing of the body."""
    assert detail(Failure(Reason.TEMPLATE_REFUSED, "no")) == {"loc": [], "value": ""}


def test_detail_of_a_body_too_deep_to_read_has_no_value() -> None:
    """The error is told all the same."""
    assert detail(Failure.of_field("temperature", "no"), DEEP) == {"loc": ["temperature"], "value": ""}
