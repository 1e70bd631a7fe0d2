"""Tokenizers of GGUF files give the tokens of the models' own ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import gguf
import numpy as np
import pytest
import tokenizers

from service.engine.loading.gguf.settings_files import write_settings
from service.engine.loading.gguf.splitters import check_splitter, set_splitter
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


def write_pieces(
    file: Path,
    arch: str,
    *,
    adds_space: bool | None,
    pieces: Sequence[str] = PIECES,
    more: Callable[[gguf.GGUFWriter], None] = lambda _: None,
) -> None:
    """Write a file with a SentencePiece vocabulary and without weights; `pieces` begin with those of PIECES."""
    writer = gguf.GGUFWriter(file, arch)
    writer.add_context_length(128)
    writer.add_embedding_length(64)
    writer.add_block_count(1)
    writer.add_feed_forward_length(96)
    writer.add_head_count(4)
    writer.add_layer_norm_rms_eps(1e-6)
    more(writer)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(pieces)
    writer.add_token_scores([-float(index) for index in range(len(pieces))])
    byte = {PIECES.index("<0x0A>"): gguf.TokenType.BYTE}
    writer.add_token_types([(_KINDS | byte).get(index, gguf.TokenType.NORMAL) for index in range(len(pieces))])
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


def test_tokenizers_of_the_file_s_folder_are_ignored(tmp_path: Path) -> None:
    """Another model's tokenizer may lie next to the file, as in a folder of downloads."""
    write_gguf(random_model(MODELS["llama"]()), tmp_path / "tiny.gguf")
    other = tokenizers.Tokenizer(tokenizers.models.BPE({"t": 0, "h": 1, "th": 2}, [("t", "h")]))
    other.save(str(tmp_path / "tokenizer.json"))
    tokenizer = FastTokenizer.from_folder(settings_folder(tmp_path / "tiny.gguf", tmp_path / "new"))
    assert tokenizer.vocab_size == len(VOCABULARY)
    assert tokenizer.encode("the") == ids_of(["the"])


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


@pytest.mark.parametrize("arch", ["gemma3", "gemma3n"])
def test_runs_of_spaces_are_one_token_of_gemma(arch: str, tmp_path: Path) -> None:
    """Vocabularies in files have runs of spaces as they are, and a single space as another character."""
    pieces = [*PIECES, "  "]

    def more(writer: gguf.GGUFWriter) -> None:
        writer.add_sliding_window(8)
        if arch == "gemma3n":
            writer.add_sliding_window_pattern([False])
            writer.add_altup_num_inputs(4)
            writer.add_tensor("blk.0.laurel_r.weight", np.zeros((64, 8), np.float32))

    write_pieces(tmp_path / "tiny.gguf", arch, adds_space=False, pieces=pieces, more=more)
    tokenizer = FastTokenizer.from_folder(settings_folder(tmp_path / "tiny.gguf", tmp_path / "new"))
    assert tokenizer.encode("the  h") == [THE, pieces.index("  "), PIECES.index("h")]


def words(folder: Path, name: str, text: str) -> list[str]:
    """Return the words into which a splitter divides a text, with `_` for a space."""
    file = folder / "tokenizer.json"
    tokenizers.Tokenizer(tokenizers.models.BPE()).save(str(file))
    check_splitter(folder / "tiny.gguf", "gpt2", name)
    set_splitter(folder, "gpt2", name)
    made = tokenizers.Tokenizer.from_file(str(file))
    return [word.replace("\u0120", "_") for word, _ in made.pre_tokenizer.pre_tokenize_str(text)]


def test_jais_2_cuts_runs_of_spaces_into_powers_of_two(tmp_path: Path) -> None:
    """A run of spaces before a word keeps one for it."""
    assert words(tmp_path, "jais-2", "It's  a 12345" + 15 * " " + "b") == [
        *("It", "'s", "_", "_a", "_", "123", "45"),
        *("________", "____", "__", "_b"),
    ]
