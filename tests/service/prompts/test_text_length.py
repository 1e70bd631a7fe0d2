"""The minimal number of tokens for a text's length holds for every text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.errors import PromptTooLong
from service.prompts.tokens.text_length import most_bytes_per_token
from service.prompts.tokens.truncation import PromptBudget, fit_text

SETTINGS: dict[str, Any] = json.loads(Path("demo/model/tokenizer.json").read_text(encoding="utf-8"))
TOKENIZER = FastTokenizer(json.dumps(SETTINGS))
MOST = most_bytes_per_token(TOKENIZER) or 0


@given(st.text(max_size=300) | st.text("a e\u0301\u0308", max_size=300))
def test_minimum_number_of_tokens_follows_from_the_length(text: str) -> None:
    assert len(TOKENIZER.encode(text)) * MOST >= len(text.encode())


@pytest.mark.parametrize(
    "change",
    [
        {"added_tokens": [{"id": 0, "content": "<x>", "special": True, "rstrip": True}]},
        {"normalizer": {"type": "Strip", "strip_left": True, "strip_right": True}},
        {"pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "Removed", "invert": False}},
        {"normalizer": {"type": "Replace", "pattern": {"Regex": " +"}, "content": " "}},
        {"model": {"type": "WordPiece", "vocab": {}}},
    ],
    ids=["a token that takes the white space around it", "strips", "splits off", "shortens", "knows no bytes"],
)
def test_no_minimum_if_the_tokenizer_drops_characters(change: dict[str, Any]) -> None:
    class Changed:
        json = json.dumps(SETTINGS | change)
        vocab_size = TOKENIZER.vocab_size
        token_bytes = TOKENIZER.token_bytes

    assert most_bytes_per_token(Changed()) is None  # type: ignore[arg-type]


class NeverRead(FastTokenizer):
    """A tokenizer that counts the characters that it gets."""

    num_characters = 0

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        self.num_characters += len(text)
        return super().encode(text, add_special_tokens=add_special_tokens)


def test_prompt_above_the_certain_limit_is_rejected_before_tokenization() -> None:
    tokenizer = NeverRead(TOKENIZER.json)
    with pytest.raises(PromptTooLong, match=r"at least \d+ tokens; the limit is 99"):
        fit_text(
            tokenizer, "hello " * 1_000_000, PromptBudget(100, None, truncates=False, bytes_per_token=MOST), "prompt"
        )
    assert tokenizer.num_characters == 0


def test_truncated_prompt_is_cut_before_tokenization() -> None:
    tokenizer = NeverRead(TOKENIZER.json)
    text = "hello, dear world " * 200_000
    budget = PromptBudget(100, 10, truncates=True, bytes_per_token=MOST)
    assert fit_text(tokenizer, text, budget, "prompt") == TOKENIZER.encode(text[-5000:])[-90:]
    assert tokenizer.num_characters < 3 * 101 * MOST
