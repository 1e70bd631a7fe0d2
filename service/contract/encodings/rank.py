"""Ranking: requests to values, scores to messages."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.v1 import rank_pb2

from service.contract.parts.answer import serving_values
from service.generation.errors import InvalidRequest
from service.generation.requests.ranking import TextsToRank


def to_ranking(request: rank_pb2.RankRequest) -> TextsToRank:
    """Convert a validated request."""
    return _texts(request, [request.query], "query")


def to_scoring(request: rank_pb2.ScoreRequest) -> TextsToRank:
    """Convert a validated request. Raise InvalidRequest if the numbers of texts don't match."""
    queries, documents = list(request.queries), list(request.documents)
    if len(queries) not in (1, len(documents)):
        raise InvalidRequest(
            "queries", f"must be one, or as many as there are documents, {len(documents)}, not {len(queries)}"
        )
    return _texts(request, queries, "queries", has_query_list=True)


def ranked(scores: Sequence[float], top_n: int | None) -> list[rank_pb2.RankedDocument]:
    """Return the best documents, best first; equal scores in the order of the request."""
    order = sorted(range(len(scores)), key=lambda index: -scores[index])
    return [rank_pb2.RankedDocument(index=index, score=scores[index]) for index in order[:top_n]]


def _texts(
    request: rank_pb2.RankRequest | rank_pb2.ScoreRequest,
    queries: Sequence[str],
    queries_field: str,
    *,
    has_query_list: bool = False,
) -> TextsToRank:
    """Return the request as values; `queries_field` names the queries in errors."""
    serving, options = serving_values(request.serving), request.options
    return TextsToRank(
        model=request.model,
        queries=queries,
        documents=list(request.documents),
        queries_field=queries_field,
        has_query_list=has_query_list,
        deployment=serving["deployment"],
        instruction=options.instruction,
        max_document_tokens=options.max_tokens_per_document if options.HasField("max_tokens_per_document") else None,
        priority=serving["priority"],
        keep_s=serving["keep_s"],
        truncates=serving["truncates"],
    )
