"""A text that goes to the model as it is.

Owns its way to tokens and the cut that fits it into the context. `encode_raw` is called on the event loop, the rest by
any thread. Knows no chat template.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from service.engine.errors import PromptTooLong
from service.engine.tokenizer import Tokenizer

_MAX_CHARACTERS_AT_ONCE = 4096  # a millisecond's work; longer texts go to another thread


async def encode_raw(tokenizer: Tokenizer, text: str, *, add_special_tokens: bool = True) -> list[int]:
    """The tokens of `text`, by default with those that the tokenizer puts around a text."""
    if len(text) <= _MAX_CHARACTERS_AT_ONCE:
        return tokenizer.encode(text, add_special_tokens=add_special_tokens)
    return await asyncio.to_thread(tokenizer.encode, text, add_special_tokens=add_special_tokens)


def fit_prompt(
    token_ids: Sequence[int], field: str, *, max_model_len: int, max_tokens: int | None, truncates: bool
) -> Sequence[int]:
    """The prompt as far as it fits into the context with at least one token of answer.

    A longer one raises PromptTooLong, or with `truncates` loses its beginning, so that `max_tokens` of answer, but not
    more than half of the context, have room.
    """
    if len(token_ids) < max_model_len:
        return token_ids
    if not truncates:
        raise PromptTooLong(field, len(token_ids), max_model_len - 1)
    room = min(max_tokens or 1, max_model_len // 2)
    return token_ids[room - max_model_len :]
