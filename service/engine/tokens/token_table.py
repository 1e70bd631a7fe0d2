"""The bytes of a vocabulary's tokens, without the tables of the library that tokenizes."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable
from itertools import accumulate

_FASTEST = 1  # compression level


class TokenTable:
    """What an engine needs of a tokenizer: a `Vocabulary` that takes 4 MB for 150,000 tokens instead of 50."""

    def __init__(self, text: str, tokens: Iterable[bytes], special_token_ids: Iterable[int]) -> None:
        """`text` is the content of a tokenizer.json, and `tokens` are the bytes of each id."""
        self._json = zlib.compress(text.encode(), _FASTEST)
        each = list(tokens)
        self._bytes = b"".join(each)
        self._ends = array("I", accumulate(map(len, each), initial=0))
        self.vocab_size = len(each)
        self.special_token_ids = frozenset(special_token_ids)

    @property
    def json(self) -> str:
        """The text of tokenizer.json, which is kept compressed."""
        return zlib.decompress(self._json).decode()

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes that one token adds to a text; empty for an id without a token.

        A model's head may be padded to more ids than the tokenizer has.
        """
        if not 0 <= token_id < self.vocab_size:
            return b""
        return self._bytes[self._ends[token_id] : self._ends[token_id + 1]]
