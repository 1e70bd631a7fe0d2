"""The routes of reranking and scoring: Cohere's, Jina's and vLLM's."""

from __future__ import annotations

from functools import partial
from typing import Final

from gateway.dialects.rank.answer import RankError, RerankAnswer, ScoreAnswer
from gateway.dialects.rank.body import RerankBody, ScoreBody
from gateway.dialects.rank.error import RankErrors
from gateway.dialects.rank.rerank import RerankTranslator, ScoreTranslator
from gateway.routes.examples.example import BY_EMBEDDER
from gateway.routes.handling.handler import Generation
from gateway.routes.surface.operation import Body, Operation
from gateway.routes.surface.surface import Surface

_RERANK: Final = Body(
    RerankBody, {**BY_EMBEDDER, "query": "a kitten", "documents": ["a motorway", "a cat"], "top_n": 1}, RerankAnswer
)
_SCORE: Final = Body(ScoreBody, {**BY_EMBEDDER, "text_1": "a kitten", "text_2": ["a motorway", "a cat"]}, ScoreAnswer)


def _rerank(path: str, version: str = "1", *, returns_documents: bool = False) -> Operation:
    translator = partial(RerankTranslator, version, returns_documents=returns_documents)
    return Operation(
        "POST", path, "Sorts documents by how well they answer a query.", Generation(translator), [_RERANK]
    )


def _score(path: str) -> Operation:
    return Operation("POST", path, "Scores pairs of texts.", Generation(ScoreTranslator), [_SCORE])


RANK: Final = Surface(
    tag="Reranking",
    error=RankError,
    error_response=RankErrors().error_response,
    prefixes=("/v1/rerank", "/v2/rerank", "/rerank", "/v1/score", "/score"),
    operations=(
        _rerank("/v1/rerank"),
        _rerank("/v2/rerank", "2"),
        _rerank("/rerank", returns_documents=True),
        _score("/v1/score"),
        _score("/score"),
    ),
)
