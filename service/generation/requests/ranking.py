"""Documents to score for queries, and the scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Activation: TypeAlias = Literal["sigmoid", "identity"]  # the function from a model's output to a score


@dataclass(frozen=True, slots=True)
class TextsToRank:
    """A request for the scores of pairs of a query and a document.

    There is one query for all documents, or one per document. `queries_field` is the client's name of the queries,
    `has_query_list` whether that is a list. An empty `instruction` is the model's own. `max_document_tokens` None is no
    limit except the model's length.
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
    keep_s: float | None = None  # how long the model stays in memory without requests; None: the default

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The indices of each pair's query and document."""
        is_shared = len(self.queries) == 1
        return [(0 if is_shared else index, index) for index in range(len(self.documents))]

    def query_field(self, index: int) -> str:
        """Return the client's name of one of the queries."""
        return f"{self.queries_field}[{index}]" if self.has_query_list else self.queries_field


@dataclass(frozen=True, slots=True)
class RankingOutput:
    """The outputs of a model, one per pair in order, and instants of `time.monotonic()`.

    `compute_s` is the request's share of the time of its steps, `block_s` the cache blocks that it held times seconds.
    """

    scores: Sequence[float]
    arrived: float
    scheduled: float
    finished: float
    compute_s: float = 0.0
    block_s: float = 0.0


def activated(score: float, activation: Activation) -> float:
    """Return the score of a model's output."""
    if activation == "identity":
        return score
    if score >= 0:
        return 1 / (1 + math.exp(-score))
    return math.exp(score) / (1 + math.exp(score))  # the exponent can't overflow
