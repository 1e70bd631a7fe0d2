"""Tokenize text without control tokens, even if the text spells one."""

from __future__ import annotations

import json
from typing import Any

import tokenizers

from service.engine.tokens.tokenizer import encode_releasing_gil


class PlainEncoder:
    """Encodes text fragments with a tokenizer without its added tokens. Any thread may call it."""

    def __init__(self, text: str, newline_ids: list[int] | None = None) -> None:
        """`text` is the content of a tokenizer.json; `newline_ids` are the ids of a newline, None: its own."""
        settings = json.loads(text)
        plain = tokenizers.Tokenizer.from_str(json.dumps(settings | {"added_tokens": [], "post_processor": None}))
        plain.no_truncation()
        plain.no_padding()
        self._plain: Any = plain
        own = encode_releasing_gil(plain, "\n", add_special_tokens=False)
        self._newline_ids = own if newline_ids is None else newline_ids

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text fragment, without the prefix tokens of a complete text."""
        token_ids = encode_releasing_gil(self._plain, "\n" + text, add_special_tokens=False)
        return self.after_newline(token_ids) or encode_releasing_gil(self._plain, text, add_special_tokens=False)

    def after_newline(self, token_ids: list[int]) -> list[int]:
        """Return `token_ids` without a leading newline; empty if the newline was merged with the following text."""
        num_newline_ids = len(self._newline_ids)
        return token_ids[num_newline_ids:] if token_ids[:num_newline_ids] == self._newline_ids else []
