"""The answers and errors of reranking and scoring, as types for the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gateway.dialects.rank.body import DocumentBody

Count = Annotated[int, Meta(ge=0)]


class RerankResult(msgspec.Struct, omit_defaults=True):
    """A document's index in the request and its score."""

    index: Count
    relevance_score: float
    document: DocumentBody | msgspec.UnsetType = msgspec.UNSET


class ApiVersion(msgspec.Struct):
    """The version of Cohere's API, from the path."""

    version: str


class MetaTokens(msgspec.Struct):
    """The number of tokens read."""

    input_tokens: Count
    output_tokens: Count


class RerankMeta(msgspec.Struct):
    """The usage in Cohere's form."""

    api_version: ApiVersion
    tokens: MetaTokens


class RankUsage(msgspec.Struct):
    """The usage in OpenAI's form."""

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
    """The details of an error; `param` is the invalid field, `code` the status."""

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
