"""Databricks' invocations: the fields of the body select the task."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from gateway.dialects.databricks.chat import DatabricksChatTranslator
from gateway.dialects.databricks.completion import DatabricksCompletionTranslator
from gateway.dialects.databricks.embedding import DatabricksEmbeddingBody, DatabricksEmbeddingTranslator
from gateway.dialects.databricks.error import DatabricksErrors
from gateway.dialects.databricks.response import InvocationResponseTranslator
from gateway.dialects.openai_family.responses.body import ResponseBody
from gateway.dialects.seam.error_response import ErrorResponse
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.json_body import decode, is_given
from gateway.dialects.seam.translator import ParsedRequest, ServiceRequest, Translator

_BY_FIELD: Final[dict[str, type[Translator]]] = {
    "messages": DatabricksChatTranslator,
    "prompt": DatabricksCompletionTranslator,
    "input": DatabricksEmbeddingTranslator,
}
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_OF_RESPONSES: Final = frozenset(ResponseBody.__struct_fields__) - frozenset(DatabricksEmbeddingBody.__struct_fields__)
_ITEMS: Final = re.compile(rb"\[\s*\{")


class InvocationTranslator(DatabricksErrors):
    """Translates one request for the task that its body's fields select."""

    def __init__(self) -> None:
        self._has_plain_input = False

    def parse(self, http_request: HttpRequest) -> ParsedRequest[ServiceRequest]:
        """Parse a request. Raise Failure."""
        fields = _read_fields(http_request.body)
        given = [field for field in _BY_FIELD if field in fields]
        if len(given) != 1:
            found = f"; it has {' and '.join(given)}" if given else ""
            text = (
                "the body must have exactly one of messages (chat), prompt (completions) and input (embeddings, "
                f"responses){found}"
            )
            raise Failure(Reason.INVALID_FIELD if given else Reason.MISSING_FIELD, text)
        if given == ["input"] and _is_response_body(fields):
            return InvocationResponseTranslator().parse(http_request)
        self._has_plain_input = given == ["input"]
        return _BY_FIELD[given[0]]().parse(http_request)

    def error_response(self, failure: Failure) -> ErrorResponse:
        """Return the error response for a failure."""
        if self._has_plain_input and failure.reason is Reason.UNSUPPORTED_TASK:
            hint = "; for a response, use /serving-endpoints/responses"
            failure = failure.with_texts({each.field: each.text + hint for each in failure.violations})
        return super().error_response(failure)


def _is_response_body(fields: Mapping[str, msgspec.Raw]) -> bool:
    """Return True if a body with `input` requests a response: it has items, or a field that embeddings don't have."""
    return not _OF_RESPONSES.isdisjoint(fields) or _ITEMS.match(bytes(fields["input"])) is not None


def _read_fields(body: bytes) -> Mapping[str, msgspec.Raw]:
    """Return the fields of a body. The task's own decoder validates them; this one only reports invalid JSON."""
    try:
        fields = _FIELDS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        fields = decode(body, _FIELDS)
    return {name: raw for name, raw in fields.items() if is_given(raw)}
