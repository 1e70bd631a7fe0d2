"""Embeddings of the Azure AI model inference API."""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from sluice.v1 import embedding_pb2

from gateway.dialects.azure.error import AzureErrors
from gateway.dialects.azure.request import check_version, deployment, read_body
from gateway.dialects.openai_family.embeddings.body import EmbeddingBody
from gateway.dialects.openai_family.embeddings.encoder import EmbeddingEncoder
from gateway.dialects.seam.contract_limit import check_text
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.translator import ParsedRequest

NAMED: Final = frozenset({"model", "input", "dimensions", "encoding_format", "input_type"})


_INPUT_TYPES: Final = {
    "text": embedding_pb2.INPUT_TYPE_UNSPECIFIED,
    "query": embedding_pb2.INPUT_TYPE_QUERY,
    "document": embedding_pb2.INPUT_TYPE_DOCUMENT,
}


class AzureEmbeddingBody(EmbeddingBody, kw_only=True):
    """The body of `POST /embeddings`. Fields that are not in NAMED are extra parameters."""

    model: str | None = None
    encoding_format: Literal["float", "base64"] | None = None
    input_type: Literal["text", "query", "document"] | None = None
    instruction: str | None = None

    def to_embedding(self, name: str) -> embedding_pb2.EmbedRequest:
        """Return the contract's request to the deployment `name`, if one is requested. Its model may be empty.

        Raise Failure.
        """
        check_text(embedding_pb2.EmbedRequest, "model", self.model, "model")  # a deployment may replace it
        request = self.to_request(self.model or "")
        request.serving.deployment = name
        request.instruction = self.instruction or ""
        request.input_type = _INPUT_TYPES[self.input_type or "text"]
        return request


_DECODER: Final = msgspec.json.Decoder(AzureEmbeddingBody)


class AzureEmbeddingTranslator(AzureErrors):
    """Translates one embedding request."""

    def parse(self, http_request: HttpRequest) -> ParsedRequest[embedding_pb2.EmbedRequest]:
        """Parse a request. Raise Failure."""
        self._http_request = http_request
        check_version(http_request)
        body = read_body(http_request, _DECODER, NAMED)
        return ParsedRequest(
            request=body.to_embedding(deployment(http_request)),
            stream=False,
            encoder=EmbeddingEncoder(as_base64=body.encoding_format == "base64"),
            caller_name=body.caller_name,
        )
