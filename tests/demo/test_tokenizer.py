"""The bundled tokenizer and the script that makes it."""

import re
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerBase

from demo import train_tokenizer
from demo.train_tokenizer import CONTROL, LITTLE_WORDS, VISIBLE
from demo.weights import CONTEXT, END_OF_TEXT, END_OF_TURN

MODEL = Path(__file__).parents[2] / "demo" / "model"
BUNDLED = Tokenizer.from_file(str(MODEL / "tokenizer.json"))


@pytest.mark.slow
@settings(max_examples=300)
@given(st.text())
def test_tokenizer_round_trips_any_text(text: str) -> None:
    """Every UTF-8 text is decoded byte for byte."""
    assert BUNDLED.decode(BUNDLED.encode(text).ids, skip_special_tokens=False) == text


@pytest.mark.parametrize("text", ["Zürich", "日本語", "🚀 up", "  two  spaces\n\n\tand a tab ", "\x00\x7f", "“quoted”"])
def test_tokenizer_round_trips_other_scripts(text: str) -> None:
    """Scripts that the corpus hardly holds fall back to bytes and come back."""
    assert BUNDLED.decode(BUNDLED.encode(text).ids) == text


@pytest.mark.parametrize("word", ["Zorvan", "apple", "Brixnoul", "weather", "x", "Nairobi", "4071", "QX"])
@pytest.mark.parametrize("before", ["", " ", '"', "(", ": ", "\n", "_", "{"])
def test_tokenizer_gives_a_word_the_same_tokens(word: str, before: str) -> None:
    """A word is the same tokens after a space, a quote, a bracket and at the start of a text."""
    after = BUNDLED.encode(before + word).tokens
    alone = BUNDLED.encode(word).tokens
    assert after[-len(alone) :] == alone


def test_tokenizer_lets_only_little_words_carry_their_space() -> None:
    """A token that begins with a space holds a little word or marks, never the beginning of another word."""
    carried = [BUNDLED.decode([i]) for i in range(BUNDLED.get_vocab_size())]
    words = {text[1:].lower() for text in carried if re.match(" [A-Za-z]", text)}
    pieces = {word[:size] for word in LITTLE_WORDS for size in range(1, len(word) + 1)}
    assert words
    assert words <= pieces


def test_tokenizer_keeps_digits_apart() -> None:
    """Each digit is a token, so that numbers of any length are made of ten."""
    assert BUNDLED.encode("50051").tokens == ["5", "0", "0", "5", "1"]


def test_tokenizer_hides_control_tokens_only(auto_tokenizer: PreTrainedTokenizerBase) -> None:
    """Decoding for a reader drops turn marks and keeps what parsers of the answer look for."""
    text = "<|im_start|><think>\na\n</think><tool_call>b</tool_call><|im_end|><|endoftext|>"
    ids = auto_tokenizer(text, add_special_tokens=False)["input_ids"]
    assert auto_tokenizer.decode(ids, skip_special_tokens=True) == "<think>\na\n</think><tool_call>b</tool_call>"


def test_tokenizer_has_one_token_for_each_mark(auto_tokenizer: PreTrainedTokenizerBase) -> None:
    """Marks are single tokens, and the ids that the configuration names are theirs."""
    assert all(len(BUNDLED.encode(mark).ids) == 1 for mark in CONTROL + VISIBLE)
    assert BUNDLED.token_to_id("<|endoftext|>") == END_OF_TEXT == auto_tokenizer.pad_token_id
    assert BUNDLED.token_to_id("<|im_end|>") == END_OF_TURN == auto_tokenizer.eos_token_id
    assert auto_tokenizer.model_max_length == CONTEXT


def test_train_tokenizer_is_repeatable() -> None:
    """The same seed gives the same tokenizer, another seed another one."""
    first, again, other = (train_tokenizer.train(600, seed, 300).to_str() for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_train_tokenizer_refuses_to_overwrite(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A tokenizer is not replaced unless requested, since its weights would become useless."""
    (tmp_path / "tokenizer.json").write_text("{}")
    monkeypatch.setattr(sys, "argv", ["train_tokenizer", "--into", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"tokenizer\.json exists; --force"):
        train_tokenizer.main()
    assert (tmp_path / "tokenizer.json").read_text() == "{}"
