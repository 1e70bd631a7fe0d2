"""Tokenizers whose texts can be computed by hand."""

from __future__ import annotations

from collections import abc
from collections.abc import Iterable

END = 256
CONTROL = 257


class ByteTokenizer:
    """Token i is byte i, and two control tokens follow."""

    json = "{}"
    vocab_size = 258
    special_token_ids = frozenset({END, CONTROL})

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        return list(text.encode())

    def decode(self, ids: abc.Sequence[int], *, skip_special_tokens: bool = True) -> str:
        return b"".join(map(self.token_bytes, ids)).decode(errors="replace")

    def token_bytes(self, token_id: int) -> bytes:
        if token_id < 256:
            return bytes([token_id])
        return {END: b"<end>", CONTROL: b"<control>"}.get(token_id, b"")


class ChunkTokenizer(ByteTokenizer):
    """Token i is the i-th of the given chunks of bytes, so that any split of a text can be tested."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self.chunks = list(chunks)
        self.vocab_size = len(self.chunks)
        self.special_token_ids = frozenset()

    def token_bytes(self, token_id: int) -> bytes:
        return self.chunks[token_id]
