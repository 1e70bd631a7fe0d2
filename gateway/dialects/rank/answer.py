"""The answers and errors of reranking and scoring, as types for the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gateway.dialects.rank.body import DocumentBody

Count = Annotated[int, Meta(ge=0)]


class RerankResult(msgspec.Struct, omit_defaults=True):
    """A document's place in the request and its score."""

    index: Count
    relevance_score: float
    document: DocumentBody | msgspec.UnsetType = msgspec.UNSET


class ApiVersion(msgspec.Struct):
    """Of Cohere's API, by the path."""

    version: str


class MetaTokens(msgspec.Struct):
    """What was read."""

    input_tokens: Count
    output_tokens: Count


class RerankMeta(msgspec.Struct):
    """What Cohere's clients read of a request's cost."""

    api_version: ApiVersion
    tokens: MetaTokens


class RankUsage(msgspec.Struct):
    """What was read, in OpenAI's words."""

    prompt_tokens: Count
    total_tokens: Count


class RerankAnswer(msgspec.Struct):
    """The documents, best first."""

    id: str
    object: Literal["list"]
    model: str
    results: list[RerankResult]
    meta: RerankMeta
    usage: RankUsage


class ScoreObject(msgspec.Struct):
    """One pair's score."""

    index: Count
    object: Literal["score"]
    score: float


class ScoreAnswer(msgspec.Struct):
    """The scores, in the pairs' order."""

    id: str
    object: Literal["list"]
    created: Count
    model: str
    data: list[ScoreObject]
    usage: RankUsage


class RankErrorDetails(msgspec.Struct):
    """The details of an error; `param` is the field at fault, `code` the status."""

    message: str
    type: str
    param: str | None
    code: int


class RankError(msgspec.Struct):
    """An error of reranking."""

    id: str
    message: str
    detail: str
    error: RankErrorDetails
