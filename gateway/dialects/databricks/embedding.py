"""Translate embedding requests of Databricks, which may have an instruction that precedes each text."""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from sluice.v1 import embedding_pb2

from gateway.dialects.databricks.error import DatabricksErrors
from gateway.dialects.databricks.target import check_extra_params, endpoint_name
from gateway.dialects.openai_family.embeddings.body import EmbeddingBody
from gateway.dialects.openai_family.embeddings.encoder import EmbeddingEncoder
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.json_body import decode
from gateway.dialects.seam.model_name import ModelName
from gateway.dialects.seam.translator import ParsedRequest


class DatabricksEmbeddingBody(EmbeddingBody, kw_only=True):
    """The body of an embedding request. `encoding_format` is not Databricks' field, but OpenAI's clients send it."""

    model: ModelName = None
    instruction: str | None = None
    encoding_format: Literal["float", "base64"] | None = None
    extra_params: dict[str, str] | None = None
    client_request_id: str | None = None
    usage_context: dict[str, str] | None = None
    user: str | None = None

    def to_embedding(self, model: str) -> embedding_pb2.EmbedRequest:
        """Return the EmbedRequest for `model`. Raise Failure if the contract can't express the body."""
        check_extra_params(self.extra_params)
        request = self.to_request(model)
        if self.instruction is not None:
            request.instruction = self.instruction
        return request


_DECODER: Final = msgspec.json.Decoder(DatabricksEmbeddingBody)


class DatabricksEmbeddingTranslator(DatabricksErrors):
    """Translates one embedding request."""

    def parse(self, http_request: HttpRequest) -> ParsedRequest[embedding_pb2.EmbedRequest]:
        """Parse a request. Raise Failure if its body is invalid."""
        body = decode(http_request.body, _DECODER)
        return ParsedRequest(
            request=body.to_embedding(endpoint_name(http_request, body.model)),
            stream=False,
            encoder=EmbeddingEncoder(as_base64=body.encoding_format == "base64"),
            caller_name=body.caller_name,
        )
