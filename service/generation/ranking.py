"""Documents to score for queries, and the scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Activation: TypeAlias = Literal["sigmoid", "identity"]  # what makes a score of the number that a model computes


@dataclass(frozen=True, slots=True)
class TextsToRank:
    """What a caller asks scores of: pairs of a query and a document.

    There is one query for all documents, or as many as there are documents. `queries_field` is what the request calls
    them, `has_query_list` whether it has a list of them. `instruction` empty is the model's own. `max_document_tokens`
    None is no limit but the model's length.
    """

    model: str
    queries: Sequence[str]
    documents: Sequence[str]
    queries_field: str = "query"
    has_query_list: bool = False
    deployment: str = ""
    instruction: str = ""
    max_document_tokens: int | None = None
    priority: int = 0
    truncates: bool = False

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The places of each pair's query and document."""
        is_shared = len(self.queries) == 1
        return [(0 if is_shared else index, index) for index in range(len(self.documents))]

    def query_field(self, index: int) -> str:
        """What the request calls one of its queries."""
        return f"{self.queries_field}[{index}]" if self.has_query_list else self.queries_field


@dataclass(frozen=True, slots=True)
class RankingOutput:
    """The numbers that a model computed, one a pair, in their order, and instants of `time.monotonic()`.

    `compute_s` is the request's share of the steps that it was in, `block_s` the blocks that it held times seconds.
    """

    scores: Sequence[float]
    arrived: float
    scheduled: float
    finished: float
    compute_s: float = 0.0
    block_s: float = 0.0


def activated(score: float, activation: Activation) -> float:
    """The score that a model's number is."""
    if activation == "identity":
        return score
    if score >= 0:
        return 1 / (1 + math.exp(-score))
    return math.exp(score) / (1 + math.exp(score))  # whose exponent can't be too large
