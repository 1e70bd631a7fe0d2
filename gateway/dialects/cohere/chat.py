"""Cohere's `POST /v2/chat`. docs/api/cohere.md has the table of its fields; a test tries every row."""

from __future__ import annotations

from typing import Final

import msgspec
from sluice.v1.chat_pb2 import ChatRequest

from gateway.dialects.cohere.body import CohereChatBody
from gateway.dialects.cohere.encoder import CohereEncoder
from gateway.dialects.cohere.error import CohereErrors
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.json_body import decode
from gateway.dialects.seam.translator import ParsedRequest

_DECODER: Final = msgspec.json.Decoder(CohereChatBody)


class CohereTranslator(CohereErrors):
    """Translates one chat request."""

    def parse(self, http_request: HttpRequest) -> ParsedRequest[ChatRequest]:
        """Parse a request. Raise Failure."""
        body = decode(http_request.body, _DECODER)
        return ParsedRequest(
            request=body.to_request(),
            stream=bool(body.stream),
            encoder=CohereEncoder(has_logprobs=bool(body.logprobs)),
            caller_name=body.caller_name,
        )
