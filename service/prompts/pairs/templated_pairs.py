"""Pairs rendered by a template into one text, for models that are prompted to judge."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from service.engine.tokens.tokenizer import Tokenizer
from service.generation.errors import PromptTooLong
from service.prompts.pairs.pair_reader import PairTexts, PairTokens
from service.prompts.tokens.control_tokens import ControlTokens

_FIELD: Final = re.compile(r"\{(instruction|query|document)\}")
_MAX_TRIALS: Final = 8  # to truncate a document by tokens: its remainder may have a few more when it is tokenized again


class TemplatedPairs:
    """A PairReader that renders a template. Control tokens occur only where the template writes them."""

    def __init__(self, tokenizer: Tokenizer, template: str, instruction: str, max_tokens: int) -> None:
        """`instruction` is for pairs without an instruction; a prompt has at most `max_tokens`."""
        self.takes_instruction = "{instruction}" in template
        self._tokenizer = tokenizer
        self._instruction = instruction
        self.max_tokens = max_tokens  # changes if the model's first load leaves too little memory for its cache
        self._control_tokens = ControlTokens(tokenizer, template)
        ids = self._control_tokens.ids
        names = "|".join(map(re.escape, sorted(ids, key=len, reverse=True)))
        parts = re.split(f"({names})", template) if names else [template]
        self._parts: list[int | str] = [ids.get(part, part) for part in parts if part]

    def read(self, texts: PairTexts) -> PairTokens:
        """Return the tokens of a pair. A document that is too long and may be truncated loses its end."""
        document, num_left = texts.document, None
        if texts.max_document_tokens is not None:
            document = self._begin(document, texts.max_document_tokens)
        token_ids = self._fill(texts, document)
        for _ in range(_MAX_TRIALS):
            num_above = len(token_ids) - self.max_tokens
            if num_above <= 0:
                return PairTokens(np.array(token_ids, dtype=np.int64), 0)
            if num_left is None:
                num_left = len(self._control_tokens.encode_plain(document))
            if num_left <= num_above:
                raise PromptTooLong(texts.query_field, len(token_ids), self.max_tokens)
            if not texts.truncates:
                break
            num_left -= num_above
            token_ids = self._fill(texts, self._begin(texts.document, num_left))
        raise PromptTooLong(texts.document_field, len(token_ids), self.max_tokens)

    def _fill(self, texts: PairTexts, document: str) -> list[int]:
        """Return the tokens of the template with the texts of one pair."""
        values = {
            "instruction": texts.instruction or self._instruction,
            "query": texts.query,
            "document": document,
        }
        token_ids: list[int] = []
        for part in self._parts:
            if isinstance(part, int):
                token_ids.append(part)
            else:
                text = _FIELD.sub(lambda field: values[field[1]], part)
                token_ids += self._control_tokens.encode_plain(text)
        return token_ids

    def _begin(self, text: str, num_tokens: int) -> str:
        """Return the first `num_tokens` tokens of a text; a character that is cut is omitted."""
        token_ids = self._control_tokens.encode_plain(text)
        if len(token_ids) <= num_tokens:
            return text
        return self._tokenizer.decode(token_ids[:num_tokens], skip_special_tokens=False).rstrip("\ufffd")
