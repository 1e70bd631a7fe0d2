"""Scores of an embedding model: the cosine of a query's and a document's vector."""

from __future__ import annotations

import numpy as np

from service.engine.interface.port import Embedder
from service.generation.caller import ANONYMOUS, Caller
from service.generation.requests.embedding import EmbeddingRequest, TokenIds
from service.generation.requests.ranking import Activation, RankingOutput, TextsToRank
from service.prompts.embeddings.embedding import EmbeddingPrompts
from service.prompts.preparing.priority import check_priority
from service.ranking.ranker import PreparedRanking, TokenCount

_MIN_NORM = 1e-12  # of a vector of zeros, whose cosines are 0


class BiEncoderRanker:
    """A Ranker that uses an encoder. Each text is computed once, even if it is in several pairs."""

    activation: Activation = "identity"

    def __init__(self, engine: Embedder, prompts: EmbeddingPrompts) -> None:
        self._engine = engine
        self._prompts = prompts

    async def prepare(
        self, texts: TextsToRank, request_id: str, deadline: float | None, caller: Caller = ANONYMOUS
    ) -> PreparedRanking:
        """Return the request ready to run. Raise the errors of a Ranker, and EngineOverloaded."""
        check_priority(texts.priority, caller)
        self._engine.reject_if_overloaded(caller.id, caller.weight, len(texts.queries) + len(texts.documents))
        before_query = texts.instruction or self._prompts.prompt("query")
        before_document = self._prompts.prompt("document")
        items = [
            *((before_query, text, texts.query_field(index), None) for index, text in enumerate(texts.queries)),
            *(
                (before_document, text, f"documents[{index}]", texts.max_document_tokens)
                for index, text in enumerate(texts.documents)
            ),
        ]
        count = TokenCount()

        def read(indices: range) -> list[TokenIds]:
            found = []
            for before, text, field, max_tokens in items[indices.start : indices.stop]:
                found.append(
                    self._prompts.encode(before, text, field, truncates=texts.truncates, max_tokens=max_tokens)
                )
                count.add(len(found[-1]))
            return found

        sizes = [len(before) + len(text) for before, text, *_ in items]
        inputs = await self._prompts.threads.read(sizes, read)
        request = EmbeddingRequest(request_id, inputs, deadline, caller.id, caller.weight, texts.priority)

        async def run() -> RankingOutput:
            output = await self._engine.embed(request)
            vectors = np.stack(list(output.vectors)).astype(np.float64)
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), _MIN_NORM)
            num_queries = len(texts.queries)
            scores = [float(vectors[query] @ vectors[num_queries + document]) for query, document in texts.pairs]
            return RankingOutput(scores, output.arrived, output.scheduled, output.finished, output.compute_s)

        return PreparedRanking(count.total, run)
