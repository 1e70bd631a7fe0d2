"""Databricks' invocations: the body's shape says which task is meant."""

from __future__ import annotations

from typing import Final

import msgspec

from gateway.dialects.databricks.chat import DatabricksChatTranslator
from gateway.dialects.databricks.completion import DatabricksCompletionTranslator
from gateway.dialects.databricks.embedding import DatabricksEmbeddingTranslator
from gateway.dialects.databricks.error import DatabricksErrors
from gateway.dialects.seam.arrival import Arrival
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.json_body import decode, is_given
from gateway.dialects.seam.translator import ParsedRequest, ServiceRequest, Translator

_BY_FIELD: Final[dict[str, type[Translator]]] = {
    "messages": DatabricksChatTranslator,
    "prompt": DatabricksCompletionTranslator,
    "input": DatabricksEmbeddingTranslator,
}


class _Shape(msgspec.Struct):
    """The field that each task has and the others have not."""

    messages: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    prompt: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    input: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


_DECODER: Final = msgspec.json.Decoder(_Shape)


class InvocationTranslator(DatabricksErrors):
    """Translates one request for whichever task its body fits."""

    def parse(self, arrival: Arrival) -> ParsedRequest[ServiceRequest]:
        """Read a request. Raises Failure."""
        shape = _look(arrival.body)
        given = [field for field in _BY_FIELD if is_given(getattr(shape, field))]
        if len(given) != 1:
            found = f"; it has {' and '.join(given)}" if given else ""
            text = (
                f"the body must have exactly one of messages (chat), prompt (completions) and input (embeddings){found}"
            )
            raise Failure(400, Reason.INVALID_FIELD if given else Reason.MISSING_FIELD, text)
        return _BY_FIELD[given[0]]().parse(arrival)


def _look(body: bytes) -> _Shape:
    """Which fields a body has. The strict reading is the task's own; here it only words what can't be read at all."""
    try:
        return _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return decode(body, _DECODER)
