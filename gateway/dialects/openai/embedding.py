"""The OpenAI style: its embeddings. docs/api/openai.md has the table of their fields."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec
from sluice.v1 import embedding_pb2

from gateway.dialects.openai.error import OpenAIErrors
from gateway.dialects.openai_family.embedding_body import EmbeddingBody
from gateway.dialects.openai_family.embedding_encoder import EmbeddingEncoder
from gateway.dialects.seam.arrival import Arrival
from gateway.dialects.seam.json_body import decode
from gateway.dialects.seam.translator import ParsedRequest


class OpenAIEmbeddingBody(EmbeddingBody, kw_only=True):
    """The body of `POST /v1/embeddings`."""

    model: str
    encoding_format: Literal["float", "base64"] | None = None
    user: str | None = None


class OpenAIEmbeddingTranslator(OpenAIErrors):
    """Translates one request for vectors."""

    decoder: ClassVar = msgspec.json.Decoder(OpenAIEmbeddingBody)

    def parse(self, arrival: Arrival) -> ParsedRequest[embedding_pb2.EmbedRequest]:
        """Read a request. Raises Failure."""
        body = decode(arrival.body, self.decoder)
        return ParsedRequest(
            request=body.to_request(body.model),
            stream=False,
            encoder=EmbeddingEncoder(as_base64=body.encoding_format == "base64"),
            caller_name=body.caller_name,
        )
