"""FastTokenizer: ids, texts and the bytes of single tokens."""

from __future__ import annotations

import json
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.errors import ModelLoadError

TEXTS = ["hello world", "  two  spaces\n\ttab", "naïve café €5 😀", '{"a": [1, 2]}', "日本語 text", "▁ and <0x41>"]


def byte_level() -> Tokenizer:
    """Return a byte-level BPE like those of GPT-2, Llama 3 and Qwen."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(["hello hello world world"], trainer)
    tokenizer.add_special_tokens(["<|end|>"])
    tokenizer.add_tokens([AddedToken("<toolé>", normalized=False)])
    return tokenizer


def sentencepiece() -> Tokenizer:
    """Return a BPE with "▁" for the space and byte tokens, like those of Llama 2 and Gemma."""
    pieces = ["<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *"▁helowrdtanpcs", "▁h", "he", "▁w"]
    merges = [("▁", "h"), ("h", "e"), ("▁", "w")]
    tokenizer = Tokenizer(
        models.BPE(
            vocab={piece: index for index, piece in enumerate(pieces)}, merges=merges, byte_fallback=True, fuse_unk=True
        )
    )
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens(["<s>", "</s>"])
    return tokenizer


def metaspace() -> Tokenizer:
    """Return a unigram model with "▁" spelled by the Metaspace decoder, like that of T5."""
    pieces = [("<unk>", 0.0), ("▁", -1.0), *((letter, -2.0) for letter in "helowrd"), ("▁hello", -1.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="never")
    return tokenizer


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("made", [byte_level, sentencepiece], ids=lambda made: made.__name__)
def test_tokenizer_bytes_join_to_the_text(made: object, text: str) -> None:
    """The concatenated bytes of a text's tokens are the text."""
    tokenizer = FastTokenizer(made().to_str())  # type: ignore[operator]
    ids = tokenizer.encode(text)
    if made is sentencepiece:
        text = text.replace("▁", " ")  # this vocabulary has one spelling for both
    assert b"".join(map(tokenizer.token_bytes, ids)).decode() == text
    assert tokenizer.decode(ids) == text


def test_tokenizer_reads_the_metaspace_decoder() -> None:
    """The replacement character of a Metaspace decoder represents a space."""
    tokenizer = FastTokenizer(metaspace().to_str())
    ids = tokenizer.encode("world hello")
    assert b"".join(map(tokenizer.token_bytes, ids)) == b"world hello"


def id_of(made: Tokenizer, token: str) -> int:
    token_id = made.token_to_id(token)
    assert token_id is not None
    return int(token_id)


def test_tokenizer_bytes_of_added_tokens_are_their_own_text() -> None:
    """An added token represents its text, even if its characters spell other bytes in the vocabulary."""
    made = byte_level()
    tokenizer = FastTokenizer(made.to_str())
    assert tokenizer.token_bytes(id_of(made, "<toolé>")) == "<toolé>".encode()
    assert tokenizer.token_bytes(id_of(made, "<|end|>")) == b"<|end|>"


def test_tokenizer_distinguishes_control_tokens() -> None:
    """Special added tokens are not part of the text. Other added tokens, such as markers of tool calls, are."""
    made = byte_level()
    tokenizer = FastTokenizer(made.to_str())
    assert tokenizer.special_token_ids == {made.token_to_id("<|end|>")}
    ids = tokenizer.encode("hello<|end|>")
    assert tokenizer.decode(ids) == "hello"
    assert tokenizer.decode(ids, skip_special_tokens=False) == "hello<|end|>"


@pytest.mark.parametrize("token_id", [-1, 10**6])
def test_tokenizer_returns_no_bytes_for_an_id_beyond_the_vocabulary(token_id: int) -> None:
    """A padded output head may sample an id without a token."""
    assert FastTokenizer(byte_level().to_str()).token_bytes(token_id) == b""


def test_tokenizer_vocab_size_covers_added_tokens() -> None:
    """The size of the vocabulary is the largest id plus one."""
    made = byte_level()
    tokenizer = FastTokenizer(made.to_str())
    assert tokenizer.vocab_size == id_of(made, "<toolé>") + 1


def test_tokenizer_neither_truncates_nor_pads() -> None:
    """Truncation and padding of a tokenizer.json are disabled."""
    made = byte_level()
    made.enable_truncation(2)
    made.enable_padding(length=16)
    text = made.to_str()
    assert json.loads(text)["truncation"] is not None
    assert FastTokenizer(text).decode(FastTokenizer(text).encode("hello world, hello")) == "hello world, hello"


def test_tokenizer_loads_from_a_folder(tmp_path: Path) -> None:
    """The content of the folder's tokenizer.json is available as text."""
    path = tmp_path / "tokenizer.json"
    path.write_text(byte_level().to_str(), encoding="utf-8")
    assert FastTokenizer.from_folder(tmp_path).json == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("content", [None, b"", b"{}", b"not json", b"\xff\xfe", b'{"model": {"type": "BPE"'])
def test_tokenizer_names_the_file_that_cannot_be_loaded(tmp_path: Path, content: bytes | None) -> None:
    """The error for a missing or invalid file has its name."""
    if content is not None:
        (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(ModelLoadError, match=r"tokenizer\.json"):
        FastTokenizer.from_folder(tmp_path)


@pytest.mark.parametrize("work", ["encode", "decode"])
def test_tokenizer_lets_other_threads_run(work: str) -> None:
    """Other threads run while a text is encoded or decoded, if it is long enough for this machine."""
    tokenizer = FastTokenizer(byte_level().to_str())
    text = "hello world, hello " * 10_000
    ids = tokenizer.encode(text[:1000]) * 3000
    num_turns = 0
    for _ in range(6):
        text, ids, num_turns = 2 * text, 2 * ids, 0
        thread = threading.Thread(
            target=partial(tokenizer.encode, text) if work == "encode" else partial(tokenizer.decode, ids)
        )
        thread.start()
        while thread.is_alive():
            time.sleep(0.001)
            num_turns += 1
        if num_turns > 10:
            break
    assert num_turns > 10  # if the interpreter lock were held, 1 or 2 for a text of any length
