"""read_token_table: the same table as FastTokenizer's, also of files that only the library reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer

from service.engine.tokens.read_table import read_token_table
from service.engine.tokens.token_table import TokenTable
from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.errors import ModelLoadError
from tests.engine.tokens.test_tokenizer import byte_level, metaspace, sentencepiece

DEMO = Path(__file__).parents[3] / "demo" / "model"


def odd_tokens() -> Tokenizer:
    """Return a byte-level BPE with tokens outside the alphabet, and an added token of the vocabulary."""
    settings = json.loads(byte_level().to_str())
    size = len(settings["model"]["vocab"])
    settings["model"]["vocab"] |= {"日本": size, " \n": size + 1, "\x80a": size + 2, "Ġé": size + 3}
    settings["added_tokens"] = []
    tokenizer = Tokenizer.from_str(json.dumps(settings))
    tokenizer.add_special_tokens(["h", "<|end|>"])
    tokenizer.add_tokens([AddedToken("Ġ€", normalized=False)])
    return tokenizer


def assert_same(found: TokenTable, expected: TokenTable) -> None:
    assert found.vocab_size == expected.vocab_size
    assert found.special_token_ids == expected.special_token_ids
    assert [found.token_bytes(i) for i in range(found.vocab_size)] == [
        expected.token_bytes(i) for i in range(expected.vocab_size)
    ]


def table_without_library(text: str, folder: Path) -> TokenTable:
    """Return the table of a tokenizer.json, with a step that no tokenizer can be built of."""
    written = json.dumps(json.loads(text) | {"pre_tokenizer": {"type": "Unknown"}})
    (folder / "tokenizer.json").write_text(written, encoding="utf-8")
    with pytest.raises(ModelLoadError):
        FastTokenizer.from_folder(folder)
    return read_token_table(folder)


@pytest.mark.parametrize("made", [byte_level, sentencepiece, metaspace, odd_tokens], ids=lambda made: made.__name__)
def test_tables_are_those_of_the_library(made: Callable[[], Tokenizer], tmp_path: Path) -> None:
    text = made().to_str()
    expected = FastTokenizer(text).table
    assert_same(table_without_library(text, tmp_path), expected)
    (tmp_path / "tokenizer.json").write_text(text, encoding="utf-8")
    assert_same(read_token_table(tmp_path), expected)
    assert read_token_table(tmp_path).json == text


def test_the_demo_table_is_that_of_the_library(tmp_path: Path) -> None:
    text = (DEMO / "tokenizer.json").read_text(encoding="utf-8")
    assert_same(table_without_library(text, tmp_path), FastTokenizer(text).table)


def _gap(settings: dict[str, Any]) -> None:
    settings["model"]["vocab"]["hel"] = 5_000


def _other_id(settings: dict[str, Any]) -> None:
    settings["added_tokens"][0]["id"] = 4_000


def _twice(settings: dict[str, Any]) -> None:
    settings["model"]["vocab"]["hello!"] = 3


@pytest.mark.parametrize("change", [_gap, _other_id, _twice])
def test_ids_that_only_the_library_knows_are_read_by_it(
    change: Callable[[dict[str, Any]], None], tmp_path: Path
) -> None:
    settings = json.loads(byte_level().to_str())
    change(settings)
    (tmp_path / "tokenizer.json").write_text(json.dumps(settings), encoding="utf-8")
    expected = FastTokenizer.from_folder(tmp_path).table
    assert read_token_table(tmp_path).vocab_size == expected.vocab_size
    assert read_token_table(tmp_path).special_token_ids == expected.special_token_ids


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", '{"model": {"vocab": 3}}'])
def test_invalid_files_are_rejected_with_their_name(text: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(text, encoding="utf-8")
    with pytest.raises(ModelLoadError, match=r"tokenizer\.json: not a tokenizer\.json"):
        read_token_table(tmp_path)
