"""Which characters of a choice's text each of its tokens makes.

Owns the running count of characters; one object a choice. It decodes as the engine does, bytes that are no UTF-8
becoming U+FFFD, so its indices are those of the engine's text. Knows no stop strings: tokens whose text the engine
cut off span characters that never come.
"""

from __future__ import annotations

import codecs
from collections.abc import Collection
from dataclasses import dataclass

from service.engine.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Span:
    """The characters from `start` up to `end`. A token that makes none, but has bytes of one, spans that one."""

    start: int
    end: int


class TokenSpans:
    """Tells the span of each token in the order of generation."""

    def __init__(self, tokenizer: Tokenizer, hidden_ids: Collection[int]) -> None:
        """`hidden_ids` are the tokens that the engine leaves out of the text; their spans are empty."""
        self.num_characters = 0
        self._tokenizer = tokenizer
        self._hidden_ids = hidden_ids
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def append(self, token_id: int) -> Span:
        """The span of the next token."""
        start = self.num_characters
        data = b"" if token_id in self._hidden_ids else self._tokenizer.token_bytes(token_id)
        self.num_characters += len(self._decoder.decode(data))
        return Span(start, max(self.num_characters, start + 1) if data else start)
