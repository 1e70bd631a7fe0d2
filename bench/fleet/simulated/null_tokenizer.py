"""A tokenizer for simulations, whose tokens have no text."""

from __future__ import annotations

from collections import abc


class NullTokenizer:
    """A tokenizer for simulations, whose tokens have no text."""

    json = "{}"
    vocab_size = 1 << 62
    special_token_ids: frozenset[int] = frozenset()

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        del text, add_special_tokens
        return []

    def decode(self, ids: abc.Sequence[int], *, skip_special_tokens: bool = True) -> str:
        del ids, skip_special_tokens
        return ""

    def token_bytes(self, token_id: int) -> bytes:
        del token_id
        return b""
