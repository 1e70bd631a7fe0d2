"""Tokenize text without control tokens, whatever the text spells."""

from __future__ import annotations

import json
from typing import Any

import tokenizers

from service.engine.tokenizer import Tokenizer, encode_aside


class PlainEncoder:
    """Encodes pieces of text by a tokenizer without its added tokens. Any thread may call it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        settings = json.loads(tokenizer.json)
        plain = tokenizers.Tokenizer.from_str(json.dumps(settings | {"added_tokens": [], "post_processor": None}))
        plain.no_truncation()
        plain.no_padding()
        self._plain: Any = plain
        self._newline_ids = tokenizer.encode("\n")

    def encode(self, text: str) -> list[int]:
        """The ids of a piece of text, without those that a tokenizer puts before a whole one."""
        token_ids = encode_aside(self._plain, "\n" + text, add_special_tokens=False)
        return self.after_newline(token_ids) or encode_aside(self._plain, text, add_special_tokens=False)

    def after_newline(self, token_ids: list[int]) -> list[int]:
        """`token_ids` without those of a leading line end; empty if the line end joined with what follows."""
        num_newline_ids = len(self._newline_ids)
        return token_ids[num_newline_ids:] if token_ids[:num_newline_ids] == self._newline_ids else []
