"""Pairs of texts as a tokenizer joins them for encoders, such as `[CLS] query [SEP] document [SEP]`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import tokenizers

from service.engine.tokens.tokenizer import Tokenizer
from service.generation.errors import PromptTooLong
from service.prompts.pairs.pair_reader import PairTexts, PairTokens

_PROBE = "a"
_NUM_KEPT = 2  # texts whose tokens are cached: a query is read with each of its documents


@dataclass(frozen=True, slots=True)
class PairFrame:
    """The tokens that a tokenizer puts around two texts. The first text has `num_first` of the tokens between them.

    `has_segments` is True if the tokenizer marks which text a token belongs to.
    """

    before: list[int]
    between: list[int]
    after: list[int]
    num_first: int = 0
    has_segments: bool = False

    @classmethod
    def from_tokenizer(cls, tokenizer: Tokenizer) -> PairFrame:
        """Return the frame of a tokenizer. Raise ValueError if it joins texts in another way."""
        joining: Any = tokenizers.Tokenizer.from_str(tokenizer.json)
        joining.no_truncation()
        joining.no_padding()
        text = joining.encode(_PROBE, add_special_tokens=False).ids
        joined = joining.encode(_PROBE, _PROBE)
        starts = [at for at in range(len(joined.ids) - len(text) + 1) if joined.ids[at : at + len(text)] == text]
        if len(starts) < 2:
            raise ValueError("the tokenizer changes texts' own tokens when it joins two")
        first_end, second = starts[0] + len(text), starts[-1]
        types = joined.type_ids
        if sorted(types) != list(types) or set(types) - {0, 1}:
            raise ValueError("the tokenizer distinguishes the texts of a pair in an unknown way")
        return cls(
            before=list(joined.ids[: starts[0]]),
            between=list(joined.ids[first_end:second]),
            after=list(joined.ids[second + len(text) :]),
            num_first=types[first_end:second].count(0),
            has_segments=1 in types,
        )

    @property
    def num_tokens(self) -> int:
        """The number of tokens around the texts."""
        return len(self.before) + len(self.between) + len(self.after)

    def join(self, first: list[int], second: list[int]) -> PairTokens:
        """Return both texts with the tokens around them."""
        token_ids = np.array([*self.before, *first, *self.between, *second, *self.after], dtype=np.int64)
        start = len(self.before) + len(first) + self.num_first
        return PairTokens(token_ids, start if self.has_segments else 0)


class FramedPairs:
    """A PairReader for encoders, whose tokenizer joins the texts."""

    takes_instruction = False

    def __init__(self, tokenizer: Tokenizer, max_model_len: int) -> None:
        """`max_model_len` includes the tokens around the texts. Raise ValueError if the tokenizer has no PairFrame."""
        self._tokenizer = tokenizer
        self._frame = PairFrame.from_tokenizer(tokenizer)
        self._max_model_len = max_model_len
        self._tokens_of = lru_cache(_NUM_KEPT)(tokenizer.encode)

    def read(self, texts: PairTexts) -> PairTokens:
        """Return the tokens of a pair. If it is too long and may be truncated, the longer text loses its end."""
        query, document = self._tokens_of(texts.query), self._tokenizer.encode(texts.document)
        document = document[: texts.max_document_tokens]
        num_free = self._max_model_len - self._frame.num_tokens
        if len(query) + len(document) > num_free:
            if not texts.truncates:
                is_query = len(query) >= num_free
                num_tokens = len(query) + len(document) + self._frame.num_tokens
                field = texts.query_field if is_query else texts.document_field
                raise PromptTooLong(field, num_tokens, self._max_model_len)
            num_query, num_document = longest_first(len(query), len(document), num_free)
            query, document = query[:num_query], document[:num_document]
        return self._frame.join(query, document)


def longest_first(num_first: int, num_second: int, num_free: int) -> tuple[int, int]:
    """Return how many tokens of two texts to keep so that `num_free` remain, always dropping from the longer text.

    If both end up equally long, the second keeps the odd token.
    """
    half = num_free // 2
    if min(num_first, num_second) <= half:
        return (num_first, num_free - num_first) if num_first <= num_second else (num_free - num_second, num_second)
    return half, num_free - half
