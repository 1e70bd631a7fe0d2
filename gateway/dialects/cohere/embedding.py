"""Embeddings of Cohere's API: the body of a request, and its translation.

A request has texts, or inputs of several pieces of text, which are one text with a line for each piece.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec
from sluice.v1 import embedding_pb2, prompt_pb2
from sluice.v1.serving_pb2 import ERROR_BEHAVIOR_ERROR, ERROR_BEHAVIOR_TRUNCATE

from gateway.dialects.cohere.error import CohereErrors
from gateway.dialects.cohere.vector_encoder import VectorEncoder, VectorType
from gateway.dialects.seam.caller_name import dotted, renamed
from gateway.dialects.seam.contract_limit import check_length, put
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.json_body import decode, is_given
from gateway.dialects.seam.model_name import ModelName
from gateway.dialects.seam.translator import ParsedRequest

_TYPES: Final = {
    "search_query": embedding_pb2.INPUT_TYPE_QUERY,
    "search_document": embedding_pb2.INPUT_TYPE_DOCUMENT,
    "classification": embedding_pb2.INPUT_TYPE_UNSPECIFIED,
    "clustering": embedding_pb2.INPUT_TYPE_UNSPECIFIED,
}
_REJECTED: Final = {
    "images": "only texts are embedded",
    "max_tokens": "a text is read up to the model's maximum",
}


class TextContent(msgspec.Struct, tag_field="type", tag="text", forbid_unknown_fields=True):
    """A piece of text."""

    text: str


class EmbedInput(msgspec.Struct, forbid_unknown_fields=True):
    """An input of several pieces."""

    content: list[TextContent]


InputType: TypeAlias = Literal["search_document", "search_query", "classification", "clustering"]


class CohereEmbedBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The body of `POST /v2/embed`. Fields of type Raw are checked for presence only."""

    model: ModelName = None
    texts: list[str] | None = None
    inputs: list[EmbedInput] | None = None
    input_type: InputType | None = None
    embedding_types: list[VectorType] | None = None
    output_dimension: int | None = None
    truncate: Literal["NONE", "START", "END"] | None = None
    priority: int | None = None
    images: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    max_tokens: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)

    def to_request(self) -> embedding_pb2.EmbedRequest:
        """Return the contract's request. Raise Failure if it can't be served or represented."""
        for name, reason in _REJECTED.items():
            if is_given(getattr(self, name)):
                raise Failure.of_field(name, f"not supported: {reason}", Reason.UNSUPPORTED_FIELD)
        if self.truncate == "START":
            text = "must be END or NONE: the end of a text is cut"
            raise Failure.of_field("truncate", text, Reason.UNSUPPORTED_FIELD)
        texts = self._given_texts()
        check_length(embedding_pb2.EmbedRequest, "inputs", texts, self._field)
        request = embedding_pb2.EmbedRequest(
            model=self.model or "",
            inputs=[prompt_pb2.Prompt(text=text) for text in texts],
            input_type=_TYPES[self.input_type or "clustering"],
        )
        put(request, "dimensions", self.output_dimension, "output_dimension")
        put(request.serving, "priority", self.priority, "priority")
        request.serving.error_behavior = ERROR_BEHAVIOR_ERROR if self.truncate == "NONE" else ERROR_BEHAVIOR_TRUNCATE
        return request

    def caller_name(self, field: str) -> str:
        """Return the caller's name of the contract's `field`: `inputs[1].text` → `texts.1`."""
        path = renamed(dotted(field), {"dimensions": "output_dimension", "serving": "", "inputs": self._field})
        return path.removesuffix(".text")

    def _given_texts(self) -> list[str]:
        if self.texts is not None and self.inputs is not None:
            raise Failure.of_field("inputs", "conflicts with texts; give only one of them")
        if self.texts is not None:
            return self.texts
        if self.inputs is None:
            raise Failure.of_field("texts", "either texts or inputs is required", Reason.MISSING_FIELD)
        return ["\n".join(part.text for part in each.content) for each in self.inputs]

    @property
    def _field(self) -> str:
        return "texts" if self.inputs is None else "inputs"


_DECODER: Final = msgspec.json.Decoder(CohereEmbedBody)


class CohereEmbedTranslator(CohereErrors):
    """Translates one embedding request."""

    def parse(self, http_request: HttpRequest) -> ParsedRequest[embedding_pb2.EmbedRequest]:
        """Parse a request. Raise Failure."""
        body = decode(http_request.body, _DECODER)
        return ParsedRequest(
            request=body.to_request(),
            stream=False,
            encoder=VectorEncoder(body.embedding_types or ["float"], body.texts),
            caller_name=body.caller_name,
        )
