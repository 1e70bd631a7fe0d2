"""Embeddings of the OpenAI style. docs/api/openai.md has the table of their fields."""

from __future__ import annotations

from typing import ClassVar, Final, Literal

import msgspec
from sluice.v1 import embedding_pb2
from sluice.v1.serving_pb2 import ERROR_BEHAVIOR_ERROR, ERROR_BEHAVIOR_TRUNCATE

from gateway.dialects.openai.error import OpenAIErrors
from gateway.dialects.openai_family.embeddings.body import EmbeddingBody
from gateway.dialects.openai_family.embeddings.encoder import EmbeddingEncoder
from gateway.dialects.seam.failure import Failure
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.json_body import decode
from gateway.dialects.seam.model_name import ModelName
from gateway.dialects.seam.translator import ParsedRequest

_WHOLE_MODEL: Final = -1  # value of vLLM's truncate_prompt_tokens: the model's maximum length
_INPUT_TYPES: Final = {
    "query": embedding_pb2.INPUT_TYPE_QUERY,
    "document": embedding_pb2.INPUT_TYPE_DOCUMENT,
}


class OpenAIEmbeddingBody(EmbeddingBody, kw_only=True):
    """The body of `POST /v1/embeddings`."""

    model: ModelName = None
    encoding_format: Literal["float", "base64"] | None = None
    user: str | None = None
    truncate_prompt_tokens: int | None = None
    truncation: bool | None = None
    input_type: Literal["query", "document"] | None = None

    def to_request(self, model: str) -> embedding_pb2.EmbedRequest:
        """Return the contract's request, with vLLM's and Voyage's parameters. Raise Failure."""
        request = super().to_request(model)
        if self.truncate_prompt_tokens is not None:
            if self.truncate_prompt_tokens != _WHOLE_MODEL:
                raise Failure.of_field(
                    "truncate_prompt_tokens", "must be -1, which stands for the model's maximum length"
                )
            request.serving.error_behavior = ERROR_BEHAVIOR_TRUNCATE
        if self.truncation is not None:
            request.serving.error_behavior = ERROR_BEHAVIOR_TRUNCATE if self.truncation else ERROR_BEHAVIOR_ERROR
        if self.input_type is not None:
            request.input_type = _INPUT_TYPES[self.input_type]
        return request


class OpenAIEmbeddingTranslator(OpenAIErrors):
    """Translates one embedding request."""

    decoder: ClassVar = msgspec.json.Decoder(OpenAIEmbeddingBody)

    def parse(self, http_request: HttpRequest) -> ParsedRequest[embedding_pb2.EmbedRequest]:
        """Parse a request. Raise Failure."""
        body = decode(http_request.body, self.decoder)
        return ParsedRequest(
            request=body.to_request(body.model or ""),
            stream=False,
            encoder=EmbeddingEncoder(as_base64=body.encoding_format == "base64"),
            caller_name=body.caller_name,
        )
