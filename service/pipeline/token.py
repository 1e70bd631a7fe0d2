"""Texts and tokens of a served model, without any generation.

Owns the limits that only the vocabulary gives. Pure; called on worker threads, since a long text takes seconds. Raises
the engine's errors with paths of proto names.
"""

from __future__ import annotations

from collections.abc import Sequence

from sluice.v1 import token_pb2

from service.engine.tokenizer import Tokenizer
from service.generation.errors import InvalidRequest


def tokenize(tokenizer: Tokenizer, request: token_pb2.TokenizeTextRequest) -> list[int]:
    """The ids of a text, by default with those of the tokens that the tokenizer puts around it."""
    adds = request.add_special_tokens if request.HasField("add_special_tokens") else True
    return tokenizer.encode(request.text, add_special_tokens=adds)


def detokenize(tokenizer: Tokenizer, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
    """The text of ids, U+FFFD in it for bytes that are no UTF-8. Raises InvalidRequest for an id without a token."""
    vocab_size = tokenizer.vocab_size
    for index, token_id in enumerate(token_ids):
        if token_id >= vocab_size:
            message = f"there is no token {token_id}; the vocabulary has {vocab_size} tokens"
            raise InvalidRequest(f"token_ids[{index}]", message)
    return tokenizer.decode(token_ids, skip_special_tokens=skip_special_tokens)
