"""Translators of requests to rerank and to score. docs/api/rank.md has the tables of their fields."""

from __future__ import annotations

from typing import Final

import msgspec
from sluice.v1 import rank_pb2

from gateway.dialects.rank.body import RerankBody, ScoreBody
from gateway.dialects.rank.encoder import RerankEncoder, ScoreEncoder
from gateway.dialects.rank.error import RankErrors
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.json_body import decode
from gateway.dialects.seam.translator import ParsedRequest

_RERANK: Final = msgspec.json.Decoder(RerankBody)
_SCORE: Final = msgspec.json.Decoder(ScoreBody)


class RerankTranslator(RankErrors):
    """Translates one request to rerank."""

    def __init__(self, version: str = "1", *, returns_documents: bool = False) -> None:
        """`version` is that of Cohere's API; `returns_documents` is the default."""
        self._version = version
        self._returns_documents = returns_documents

    def parse(self, http_request: HttpRequest) -> ParsedRequest[rank_pb2.RankRequest]:
        """Parse a request. Raise Failure."""
        body = decode(http_request.body, _RERANK)
        returns = self._returns_documents if body.return_documents is None else body.return_documents
        return ParsedRequest(
            request=body.to_request(),
            stream=False,
            encoder=RerankEncoder(self._version, body.texts if returns else None),
            caller_name=body.caller_name,
        )


class ScoreTranslator(RankErrors):
    """Translates one request to score."""

    def parse(self, http_request: HttpRequest) -> ParsedRequest[rank_pb2.ScoreRequest]:
        """Parse a request. Raise Failure."""
        body = decode(http_request.body, _SCORE)
        return ParsedRequest(
            request=body.to_request(), stream=False, encoder=ScoreEncoder(), caller_name=body.caller_name
        )
