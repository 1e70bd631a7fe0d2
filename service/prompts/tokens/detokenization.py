"""Detokenize the ids that clients send, and check them against a model's vocabulary.

It is called on worker threads, because a long text takes seconds.
"""

from __future__ import annotations

from collections.abc import Sequence

from service.engine.tokens.tokenizer import Tokenizer
from service.generation.errors import InvalidRequest


def detokenize(tokenizer: Tokenizer, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
    """Return the text of ids, with U+FFFD for bytes that are not UTF-8. Raise InvalidRequest for an unknown id."""
    for index, token_id in enumerate(token_ids):
        check_token(token_id, f"token_ids[{index}]", tokenizer.vocab_size)
    return tokenizer.decode(token_ids, skip_special_tokens=skip_special_tokens)


def check_token(token_id: int, field: str, vocab_size: int) -> None:
    """Raise InvalidRequest for `field` if the model doesn't have a token."""
    if token_id >= vocab_size:
        raise InvalidRequest(field, f"there is no token {token_id}; the vocabulary has {vocab_size} tokens")
