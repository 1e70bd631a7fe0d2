"""The detail of Azure's errors about an unsupported value, for any kind of body."""

from __future__ import annotations

import json

import pytest

from gateway.dialects.azure.chat import AzureTranslator
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest

DEEP = b'{"temperature": 9, "tools": ' + b"[" * 5000 + b"]" * 5000 + b"}"


def detail(failure: Failure, body: bytes = b"{}") -> object:
    """Return `detail` of the error response to `body`."""
    translator = AzureTranslator()
    with pytest.raises(Failure, match="must have the form"):
        translator.parse(HttpRequest(body, query={"api-version": "new"}))
    return json.loads(translator.error_response(failure).body)["detail"]


def test_detail_is_empty_for_an_error_without_a_field() -> None:
    """An error about no field has an empty detail without anything from the body."""
    assert detail(Failure(Reason.TEMPLATE_REFUSED, "no")) == {"loc": [], "value": ""}


def test_detail_has_no_value_for_a_body_nested_too_deeply() -> None:
    """The error for a body nested too deeply has no value."""
    assert detail(Failure.of_field("temperature", "no"), DEEP) == {"loc": ["temperature"], "value": ""}
