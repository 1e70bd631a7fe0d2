"""Scores of a model that reads a query and a document as one input."""

from __future__ import annotations

from service.engine.interface.port import Embedder
from service.generation.caller import ANONYMOUS, Caller
from service.generation.requests.embedding import EmbeddingRequest
from service.generation.requests.ranking import Activation, RankingOutput, TextsToRank
from service.prompts.pairs.pair_reader import PairReader
from service.prompts.preparing.chunk import TextThreads
from service.ranking.ranker import PreparedRanking, read_pairs


class CrossEncoderRanker:
    """A Ranker that uses an engine whose vectors are scores."""

    def __init__(self, engine: Embedder, reader: PairReader, activation: Activation) -> None:
        self.activation: Activation = activation
        self._engine = engine
        self._reader = reader
        self._threads = TextThreads("pairs")

    def close(self) -> None:
        """Stop the worker threads; no request may be prepared afterwards."""
        self._threads.close()

    async def prepare(
        self, texts: TextsToRank, request_id: str, deadline: float | None, caller: Caller = ANONYMOUS
    ) -> PreparedRanking:
        """Return the request ready to run. Raise the errors of a Ranker, and EngineOverloaded."""
        self._engine.reject_if_overloaded(caller.id, caller.weight, len(texts.pairs))
        pairs, num_tokens = await read_pairs(texts, self._reader, self._threads, caller)
        request = EmbeddingRequest(
            request_id,
            [pair.token_ids for pair in pairs],
            deadline,
            caller.id,
            caller.weight,
            texts.priority,
            second_starts=[pair.second_start for pair in pairs],
        )

        async def run() -> RankingOutput:
            output = await self._engine.embed(request)
            scores = [float(vector[0]) for vector in output.vectors]
            return RankingOutput(scores, output.arrived, output.scheduled, output.finished, output.compute_s)

        return PreparedRanking(num_tokens, run)
