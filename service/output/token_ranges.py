"""The characters of a choice's text that each of its tokens makes.

Indices are those of the engine's text. Tokens whose text a stop string cut off range over characters that never come.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from service.engine.tokenizer import Tokenizer


class TextRange(NamedTuple):
    """The characters from `start` up to `end`. A token that makes none, but has bytes of one, ranges over that one."""

    start: int
    end: int


class TokenRanges:
    """Tells the range of each token in the order of generation."""

    def __init__(self, tokenizer: Tokenizer, hidden_ids: Collection[int]) -> None:
        """`hidden_ids` are the tokens that the engine leaves out of the text; their ranges are empty."""
        self.num_characters = 0
        self._tokenizer = tokenizer
        self._hidden_ids = hidden_ids

    def append(self, token_id: int, text_end: int) -> TextRange:
        """The range of the next token, up to whose end the text has `text_end` characters."""
        start = self.num_characters
        self.num_characters = text_end
        has_bytes = token_id not in self._hidden_ids and bool(self._tokenizer.token_bytes(token_id))
        return TextRange(start, max(text_end, start + 1) if has_bytes else start)
