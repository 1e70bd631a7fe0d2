"""Embeddings: requests to values, vectors to messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sluice.v1 import embedding_pb2

from service.contract.parts.answer import serving_values
from service.contract.parts.conversation import to_raw_prompt
from service.generation.requests.embedding import Purpose, TextsToEmbed

_PURPOSES: Final[Mapping[int, Purpose]] = {
    embedding_pb2.INPUT_TYPE_UNSPECIFIED: "",
    embedding_pb2.INPUT_TYPE_QUERY: "query",
    embedding_pb2.INPUT_TYPE_DOCUMENT: "document",
}


def to_texts(request: embedding_pb2.EmbedRequest) -> TextsToEmbed:
    """Convert a validated request."""
    serving = serving_values(request.serving)
    return TextsToEmbed(
        model=request.model,
        inputs=tuple(to_raw_prompt(given, f"inputs[{index}]") for index, given in enumerate(request.inputs)),
        instruction=request.instruction,
        dimensions=request.dimensions if request.HasField("dimensions") else None,
        deployment=serving["deployment"],
        priority=serving["priority"],
        truncates=serving["truncates"],
        keep_s=serving["keep_s"],
        purpose=_PURPOSES[request.input_type],
    )


def embedding_messages(vectors: Iterable[Sequence[float]]) -> list[embedding_pb2.Embedding]:
    """Return the response with the vectors in the order of the inputs."""
    return [embedding_pb2.Embedding(index=index, values=values) for index, values in enumerate(vectors)]
