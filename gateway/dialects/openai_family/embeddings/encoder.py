"""Vectors in the JSON of OpenAI's family: as numbers, or as base64 of little-endian float32."""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence

import orjson
from sluice.v1.embedding_pb2 import EmbedResponse

from gateway.dialects.seam.encoder import WholeEncoder


class EmbeddingEncoder(WholeEncoder):
    """Encodes one answer."""

    def __init__(self, *, as_base64: bool = False) -> None:
        self._as_base64 = as_base64

    def whole(self, response: EmbedResponse) -> bytes:
        """Return the body of the answer."""
        num_tokens = response.usage.prompt_tokens
        return orjson.dumps(
            {
                "id": f"embd-{response.id}",
                "object": "list",
                "created": response.created.seconds,
                "model": response.model,
                "data": [
                    {"object": "embedding", "index": each.index, "embedding": self._vector(each.values)}
                    for each in response.embeddings
                ],
                "usage": {"prompt_tokens": num_tokens, "total_tokens": num_tokens},
            }
        )

    def _vector(self, values: Sequence[float]) -> str | orjson.Fragment:
        """Return a vector as base64 of little-endian float32, or as JSON numbers."""
        if self._as_base64:
            return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()
        return orjson.Fragment(orjson.dumps(list(values)))
