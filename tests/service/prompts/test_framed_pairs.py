"""The texts that are tokenized for pairs of encoders."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from service.engine.tokens.tokenizer import FastTokenizer
from service.prompts.pairs.framed_pairs import FramedPairs
from service.prompts.pairs.pair_reader import PairTexts
from tests.engine.pair_fakes import save_pair_tokenizer


class Counting(FastTokenizer):
    """A tokenizer that records the texts that it encodes."""

    def __init__(self, text: str) -> None:
        self.encoded_texts: list[str] = []
        super().__init__(text)

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        self.encoded_texts.append(text)
        return super().encode(text, add_special_tokens=add_special_tokens)


def test_query_is_tokenized_once_for_all_documents(tmp_path: Path) -> None:
    """A long query is tokenized once for many documents, and each pair is the same as alone."""
    save_pair_tokenizer(tmp_path)
    tokenizer = Counting((tmp_path / "tokenizer.json").read_text())
    reader = FramedPairs(tokenizer, 8)
    query, documents = "w10 w11 w12 w13", ["w20", "w21 w22 w23 w24 w25", "w26"]
    read = [reader.read(PairTexts(query, each, "query", "documents", truncates=True)) for each in documents]
    assert sorted(tokenizer.encoded_texts) == sorted([query, *documents])
    alone = [
        FramedPairs(tokenizer, 8).read(PairTexts(query, each, "query", "documents", truncates=True))
        for each in documents
    ]
    assert all(np.array_equal(one.token_ids, other.token_ids) for one, other in zip(read, alone, strict=True))
