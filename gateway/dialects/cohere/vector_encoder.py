"""Vectors in Cohere's types: as numbers, as small integers, as bits, and as base64.

Integers are relative to the largest component of their vector, so that the vector's direction is kept as exactly as
possible; bits are the signs.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import orjson
from sluice.v1.embedding_pb2 import EmbedResponse

from gateway.dialects.seam.encoder import WholeEncoder

VectorType: TypeAlias = Literal["float", "int8", "uint8", "binary", "ubinary", "base64"]

_LARGEST: Final = 127


class VectorEncoder(WholeEncoder):
    """Encodes one answer with its vectors in the requested types."""

    def __init__(self, types: Collection[VectorType], texts: Sequence[str] | None) -> None:
        """`texts` are the request's texts, which the answer repeats; None if the request has inputs instead."""
        self._types = dict.fromkeys(types)
        self._texts = texts

    def whole(self, response: EmbedResponse) -> bytes:
        """Return the body of the answer."""
        vectors = [list(each.values) for each in response.embeddings]
        embeddings = {
            kind: orjson.Fragment(orjson.dumps([_FORMS[kind](vector) for vector in vectors])) for kind in self._types
        }
        answer: dict[str, Any] = {"id": response.id, "response_type": "embeddings_by_type", "embeddings": embeddings}
        if self._texts is not None:
            answer["texts"] = self._texts
        tokens = {"input_tokens": response.usage.prompt_tokens, "output_tokens": 0}
        return orjson.dumps(answer | {"meta": {"api_version": {"version": "2"}, "tokens": tokens}})


def _to_integers(vector: Sequence[float]) -> list[int]:
    largest = max(map(abs, vector), default=0.0)
    return [round(x * _LARGEST / largest) for x in vector] if largest else [0] * len(vector)


def _to_unsigned(vector: Sequence[float]) -> list[int]:
    return [x + 128 for x in _to_integers(vector)]


def _to_bytes(vector: Sequence[float]) -> list[int]:
    """Return eight signs per byte, the first one in the highest bit; a positive component is 1."""
    bits = "".join("1" if x > 0 else "0" for x in vector)
    return [int(bits[start : start + 8].ljust(8, "0"), 2) for start in range(0, len(bits), 8)]


def _to_signed_bytes(vector: Sequence[float]) -> list[int]:
    return [byte - 128 for byte in _to_bytes(vector)]


def _to_base64(vector: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


_FORMS: Final[Mapping[VectorType, Callable[[Sequence[float]], Any]]] = {
    "float": list,
    "int8": _to_integers,
    "uint8": _to_unsigned,
    "binary": _to_signed_bytes,
    "ubinary": _to_bytes,
    "base64": _to_base64,
}
