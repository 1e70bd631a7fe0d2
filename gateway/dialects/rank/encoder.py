"""Encoders of rerankings and scores: one JSON object has the fields that the clients of each API read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from sluice.v1.rank_pb2 import RankResponse, ScoreResponse

from gateway.dialects.seam.encoder import WholeEncoder


class RerankEncoder(WholeEncoder):
    """Encodes a reranking, with the usage of Cohere's API (`meta`) and of Jina's and vLLM's (`usage`)."""

    def __init__(self, version: str, documents: Sequence[str] | None) -> None:
        """`version` is that of Cohere's API; `documents` are the texts to echo, or None."""
        self._version = version
        self._documents = documents

    def whole(self, response: RankResponse) -> bytes:
        """Return the body of the answer."""
        num_tokens = response.usage.prompt_tokens
        return orjson.dumps(
            {
                "id": response.id,
                "object": "list",
                "model": response.model,
                "results": [self._result(each.index, each.score) for each in response.results],
                "meta": {
                    "api_version": {"version": self._version},
                    "tokens": {"input_tokens": num_tokens, "output_tokens": 0},
                },
                "usage": {"prompt_tokens": num_tokens, "total_tokens": num_tokens},
            }
        )

    def _result(self, index: int, score: float) -> dict[str, Any]:
        result: dict[str, Any] = {"index": index, "relevance_score": score}
        if self._documents is not None:
            result["document"] = {"text": self._documents[index]}
        return result


class ScoreEncoder(WholeEncoder):
    """Encodes scores as vLLM's API does."""

    def whole(self, response: ScoreResponse) -> bytes:
        """Return the body of the answer."""
        num_tokens = response.usage.prompt_tokens
        return orjson.dumps(
            {
                "id": f"score-{response.id}",
                "object": "list",
                "created": response.created.seconds,
                "model": response.model,
                "data": [
                    {"index": index, "object": "score", "score": score} for index, score in enumerate(response.scores)
                ],
                "usage": {"prompt_tokens": num_tokens, "total_tokens": num_tokens},
            }
        )
