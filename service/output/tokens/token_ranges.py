"""The characters of a choice's text that each of its tokens produces.

Indices refer to the engine's text. Tokens whose text a stop string cut off have ranges beyond its end.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from service.engine.tokens.tokenizer import Tokenizer


class TextRange(NamedTuple):
    """The characters from `start` up to `end`. A token with some bytes of a character has the range of that one."""

    start: int
    end: int


class TokenRanges:
    """Computes the range of each token in the order of generation."""

    def __init__(self, tokenizer: Tokenizer, hidden_ids: Collection[int]) -> None:
        """`hidden_ids` are the tokens that the engine omits from the text; their ranges are empty."""
        self.num_characters = 0
        self._tokenizer = tokenizer
        self._hidden_ids = hidden_ids

    def append(self, token_id: int, text_end: int) -> TextRange:
        """Return the range of the next token. The text up to its end has `text_end` characters."""
        start = self.num_characters
        self.num_characters = text_end
        has_bytes = token_id not in self._hidden_ids and bool(self._tokenizer.token_bytes(token_id))
        return TextRange(start, max(text_end, start + 1) if has_bytes else start)
