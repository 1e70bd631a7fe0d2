"""GGUF files are converted to folders that compute the same; other files are rejected with the reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import pytest
import tokenizers
import torch
from safetensors.torch import load_file
from torch.testing import assert_close
from transformers import AutoModelForCausalLM

from service.commands.convert_gguf import main
from service.engine.tokens.tokenizer import FastTokenizer
from tests.engine.folders.gguf_families import model_of, write_family
from tests.engine.folders.gguf_files import MODELS, VOCABULARY, write_gguf
from tests.engine.folders.tiny_models import random_model, reference


def converted(file: Path, *more: str) -> Path:
    """Convert a file to a folder, and return it."""
    folder = file.with_suffix("")
    assert main([str(file), str(folder), *more]) == 0
    return folder


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Any:
    """Return a random model of each kind, with weights that are large enough for distinct logits."""
    torch.manual_seed(0)
    found = random_model(MODELS[request.param]())
    for parameter in found.parameters():
        torch.nn.init.normal_(parameter, mean=float(parameter.dim() == 1), std=0.15)
    return found


def test_converted_folder_computes_the_same_as_the_file(model: Any, tmp_path: Path) -> None:
    """Weights, sizes, rotary positions and tied weights are those of the model from which the file was written."""
    write_gguf(model, tmp_path / "tiny.gguf")
    folder = converted(tmp_path / "tiny.gguf", "--dtype", "float32")
    loaded: Any = AutoModelForCausalLM.from_pretrained(folder)
    token_ids = list(range(1, 60))
    assert_close(reference(loaded.eval(), token_ids), reference(model, token_ids), rtol=1e-5, atol=1e-5)


# Latents whose up-projections files store in two parts, a mixer in parts, numbers that are metadata; and experts, which
# checkpoints store one by one, or as one tensor.
@pytest.mark.parametrize(
    "name",
    [
        *("apertus", "deepseek_v3, groups", "qwen3_next", "lfm2_moe", "granitemoehybrid", "granitemoehybrid, dense"),
        *("gemma3n_text", "gemma4_text", "gemma4_text, experts", "hunyuan_v1_moe", "jamba", "mamba", "mamba2"),
        *("minimax_m2", "nemotron_h", "nemotron_h, experts"),
        *("ernie4_5_moe", "glm4_moe", "gpt_oss", "granitemoe", "granitemoeshared", "mixtral", "olmoe", "qwen2_moe"),
    ],
)
def test_converted_folders_have_the_tensors_of_checkpoints(name: str, tmp_path: Path) -> None:
    found, token_ids = model_of(name), list(range(1, 40))
    write_family(name, found, tmp_path / "tiny.gguf")
    folder = converted(tmp_path / "tiny.gguf", "--dtype", "float32")
    answer: Any = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    loaded, problems = answer
    assert not any(problems.values())
    assert_close(reference(loaded.eval(), token_ids), reference(found, token_ids), rtol=1e-4, atol=1e-4)


def test_quantized_tensors_are_dequantized(tmp_path: Path) -> None:
    """The numbers are those of llama.cpp's own package; the type is bfloat16 unless another one is requested."""
    torch.manual_seed(0)
    found = random_model(MODELS["qwen3"]())
    write_gguf(found, tmp_path / "tiny.gguf", gguf.GGMLQuantizationType.Q8_0)
    weights = load_file(converted(tmp_path / "tiny.gguf") / "model-00001.safetensors")
    name = "model.layers.1.mlp.down_proj.weight"
    packed = gguf.quantize(found.get_parameter(name).detach().numpy(), gguf.GGMLQuantizationType.Q8_0)
    meant = torch.from_numpy(gguf.dequantize(packed, gguf.GGMLQuantizationType.Q8_0))
    assert weights[name].equal(meant.bfloat16())


def test_tokenizer_template_and_end_tokens_are_converted(tmp_path: Path) -> None:
    """The folder has everything else that a server needs."""
    write_gguf(random_model(MODELS["qwen3"]()), tmp_path / "tiny.gguf")
    folder = converted(tmp_path / "tiny.gguf")
    tokenizer = FastTokenizer.from_folder(folder)
    assert [VOCABULARY[token_id] for token_id in tokenizer.encode("the to")] == ["the", "Ġt", "o"]
    assert (folder / "chat_template.jinja").read_text() == "{{ messages }}"
    assert json.loads((folder / "generation_config.json").read_text()) == {"eos_token_id": [0]}


WORDS = {
    "gpt-2": ["it", "'s", "Ġ2026", ",", "Ċ", "Ġthought"],
    "falcon": ["it", "'", "s", "Ġ", "202", "6", ",", "Ċ", "Ġthought"],
    "mpt": ["it", "'s", "Ġ2026", ",", "Ċ", "Ġthought"],
    "smollm": ["it", "'s", "Ġ", "2", "0", "2", "6", ",", "Ċ", "Ġthought"],
    "llama-bpe": ["it", "'s", "Ġ", "202", "6", ",Ċ", "Ġthought"],
    "qwen2": ["it", "'s", "Ġ", "2", "0", "2", "6", ",Ċ", "Ġthought"],
    "tekken": ["it", "'s", "Ġ", "2", "0", "2", "6", ",Ċ", "Ġthought"],
    "qwen35": ["it", "'s", "Ġ", "2", "0", "2", "6", ",Ċ", "Ġthought"],
    "deepseek-llm": ["it", "'", "s", "Ġ", "2", "0", "2", "6", ",", "Ċ", "Ġthought"],
    "deepseek-coder": ["it", "'", "s", "Ġ", "2", "0", "2", "6", ",", "Ċ", "Ġthought"],
}


@pytest.mark.parametrize("words", WORDS)
def test_pre_tokenizer_of_the_file_is_converted(words: str, tmp_path: Path) -> None:
    """A pre-tokenizer that transformers doesn't know would otherwise split like GPT-2 and give other tokens."""
    write_gguf(random_model(MODELS["llama"]()), tmp_path / "tiny.gguf", words=words)
    tokenizer = tokenizers.Tokenizer.from_file(str(converted(tmp_path / "tiny.gguf") / "tokenizer.json"))
    assert [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str("it's 2026,\n thought")] == WORDS[words]
    tokens = tokenizer.encode("ought", add_special_tokens=False).tokens
    assert (tokens == ["ought"]) == (words in {"llama-bpe", "tekken"})
    assert (tokenizer.normalizer is not None) == (words in {"qwen2", "qwen35"})


@pytest.mark.parametrize(
    ("words", "adds_bos", "begins"),
    [
        ("llama-bpe", None, True),
        ("tekken", None, True),
        ("llama-bpe", False, False),
        ("llama-bpe", True, True),
        ("qwen2", None, False),
        ("qwen2", True, True),
    ],
)
def test_texts_begin_with_the_token_that_the_pre_tokenizer_implies(
    tmp_path: Path, words: str, *, adds_bos: bool | None, begins: bool
) -> None:
    """llama.cpp adds it for some pre-tokenizers unless the file says otherwise."""
    write_gguf(random_model(MODELS["llama"]()), tmp_path / "tiny.gguf", words=words, adds_bos=adds_bos)
    tokenizer = FastTokenizer.from_folder(converted(tmp_path / "tiny.gguf"))
    found = tokenizer.encode("the", add_special_tokens=True)
    assert found == [0] * begins + tokenizer.encode("the")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("bloom", "unsupported pre-tokenizer 'bloom' (tokenizer.ggml.pre); supported are a.x-4.0, "),
        ("default", "its pre-tokenizer is unknown (tokenizer.ggml.pre)"),
        (None, "its pre-tokenizer is unknown (tokenizer.ggml.pre)"),
    ],
)
def test_unknown_pre_tokenizers_are_rejected(
    words: str | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_gguf(random_model(MODELS["llama"]()), tmp_path / "tiny.gguf", words=words)
    assert main([str(tmp_path / "tiny.gguf"), str(tmp_path / "new")]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_unsupported_files_are_rejected_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error has the file and the problem; no folder is left."""
    (tmp_path / "text.gguf").write_text("no model")
    writer = gguf.GGUFWriter(tmp_path / "other.gguf", "rwkv7")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (tmp_path / "there").mkdir()
    for words, message in (
        (["nowhere.gguf", "new"], "nowhere.gguf is not a file"),
        (["text.gguf", "new"], "text.gguf can't be read as GGUF"),
        (["other.gguf", "new"], "general.architecture is rwkv7; supported are apertus, arcee, "),
        (["other.gguf", "there"], "there exists already"),
    ):
        assert main([str(tmp_path / word) for word in words]) == 1
        error = capsys.readouterr().err
        assert error.startswith("sluice: ")
        assert message in error
        assert error.count("\n") == 1
        assert not (tmp_path / "new").exists()
