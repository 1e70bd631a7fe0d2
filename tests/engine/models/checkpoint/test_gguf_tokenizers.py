"""Tokenizers of GGUF files give the tokens of the models' own ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import gguf
import pytest

from service.engine.loading.gguf.settings_files import write_settings
from service.engine.models.checkpoint.gguf.header import read_header
from service.engine.tokens.tokenizer import FastTokenizer
from tests.engine.folders.gguf_files import MARKED, MODELS, VOCABULARY, write_gguf
from tests.engine.folders.tiny_models import random_model

MARK, SPACES = MARKED
PIECES = ["<unk>", "<s>", "</s>", "<|user|>", "<0x0A>", "▁", "t", "h", "e", "th", "the", "▁the"]
_KINDS = {0: gguf.TokenType.UNKNOWN, 1: gguf.TokenType.CONTROL, 2: gguf.TokenType.CONTROL, 3: gguf.TokenType.CONTROL}
USER, THE, SPACED_THE = (PIECES.index(piece) for piece in ("<|user|>", "the", "▁the"))


def ids_of(texts: Sequence[str]) -> list[int]:
    return [VOCABULARY.index(text) for text in texts]


def settings_folder(file: Path, folder: Path) -> Path:
    """Write a file's settings to a new folder."""
    folder.mkdir()
    write_settings(read_header(file), folder, "float32")
    return folder


def write_pieces(file: Path, arch: str, *, adds_space: bool | None) -> None:
    """Write a file with a SentencePiece vocabulary and without weights."""
    writer = gguf.GGUFWriter(file, arch)
    writer.add_context_length(128)
    writer.add_embedding_length(64)
    writer.add_block_count(1)
    writer.add_feed_forward_length(96)
    writer.add_head_count(4)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(PIECES)
    writer.add_token_scores([-float(index) for index in range(len(PIECES))])
    byte = {PIECES.index("<0x0A>"): gguf.TokenType.BYTE}
    writer.add_token_types([(_KINDS | byte).get(index, gguf.TokenType.NORMAL) for index in range(len(PIECES))])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    if adds_space is not None:
        writer.add_add_space_prefix(adds_space)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_control_and_user_defined_tokens_are_found_by_their_names(tmp_path: Path) -> None:
    """They have characters beyond the byte alphabet, as DeepSeek's control tokens and runs of spaces do."""
    write_gguf(random_model(MODELS["llama"]()), tmp_path / "tiny.gguf")
    tokenizer = FastTokenizer.from_folder(settings_folder(tmp_path / "tiny.gguf", tmp_path / "new"))
    assert tokenizer.encode(f"the{MARK}the  the") == ids_of(["the", MARK, "the", SPACES, "the"])
    user, spaces = ids_of([MARK, SPACES])
    assert user in tokenizer.special_token_ids
    assert spaces not in tokenizer.special_token_ids
    assert tokenizer.decode([user, spaces], skip_special_tokens=False) == f"{MARK}  "
    assert tokenizer.token_bytes(spaces) == b"  "
    assert tokenizer.vocab_size == len(VOCABULARY)


def test_texts_begin_with_a_token_beyond_the_byte_alphabet(tmp_path: Path) -> None:
    """The first token of DeepSeek's distilled models, which templates name as `bos_token`."""
    model = random_model(MODELS["llama"]())
    write_gguf(model, tmp_path / "tiny.gguf", words="deepseek-r1-qwen", adds_bos=True, bos=MARK)
    folder = settings_folder(tmp_path / "tiny.gguf", tmp_path / "new")
    tokenizer = FastTokenizer.from_folder(folder)
    assert tokenizer.encode("the", add_special_tokens=True) == ids_of([MARK, "the"])
    assert tokenizer.vocab_size == len(VOCABULARY)
    assert json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))["bos_token"] == MARK


@pytest.mark.parametrize(("adds_space", "first"), [(None, SPACED_THE), (True, SPACED_THE), (False, THE)])
def test_texts_of_pieces_begin_with_a_space_unless_the_file_says_otherwise(
    tmp_path: Path, first: int, *, adds_space: bool | None
) -> None:
    write_pieces(tmp_path / "tiny.gguf", "llama", adds_space=adds_space)
    tokenizer = FastTokenizer.from_folder(settings_folder(tmp_path / "tiny.gguf", tmp_path / "new"))
    assert tokenizer.encode("the the") == [first, SPACED_THE]
    assert tokenizer.decode([first, SPACED_THE]) == "the the"


def test_white_space_after_control_tokens_of_phi3_is_ignored(tmp_path: Path) -> None:
    """Its template ends each of them with a line feed, which the model was not trained with."""
    write_pieces(tmp_path / "tiny.gguf", "phi3", adds_space=None)
    tokenizer = FastTokenizer.from_folder(settings_folder(tmp_path / "tiny.gguf", tmp_path / "new"))
    assert tokenizer.encode("<|user|>\nthe") == [USER, SPACED_THE]
    assert tokenizer.encode("<s>\nthe")[:2] != [1, SPACED_THE]
