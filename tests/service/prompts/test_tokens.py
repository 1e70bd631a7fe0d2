"""Tokenization and detokenization without generation."""

from __future__ import annotations

import pytest

from service.generation.errors import InvalidRequest
from service.prompts.tokens.detokenization import check_token, detokenize
from tests.engine.constraints.fakes import ADDED, END, tokenizer_of

TOKENIZER = tokenizer_of(*ADDED)


def test_tokens_become_their_text() -> None:
    """Control tokens are shown or omitted; bytes that are not UTF-8 are U+FFFD."""
    token_ids = TOKENIZER.encode(f"é{END}")
    assert detokenize(TOKENIZER, token_ids, skip_special_tokens=False) == f"é{END}"
    assert detokenize(TOKENIZER, token_ids, skip_special_tokens=True) == "é"
    assert detokenize(TOKENIZER, token_ids[:1], skip_special_tokens=False) in ("é", "\ufffd")


def test_unknown_token_is_rejected_by_its_field() -> None:
    """The error for an unknown token contains the vocabulary's size."""
    with pytest.raises(InvalidRequest, match="there is no token 9999") as caught:
        detokenize(TOKENIZER, [1, 9999], skip_special_tokens=False)
    assert caught.value.field == "token_ids[1]"
    check_token(99, "f", 100)
    with pytest.raises(InvalidRequest, match="100 tokens"):
        check_token(100, "f", 100)
