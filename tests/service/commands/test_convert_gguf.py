"""GGUF files are converted to folders that compute the same; other files are rejected with the reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import tokenizers
import torch
from safetensors.torch import load_file
from torch.testing import assert_close
from transformers import AutoModelForCausalLM

from service.commands.convert_gguf import main
from service.engine.tokens.tokenizer import FastTokenizer
from tests.engine.tiny_models import config, random_model, reference

VOCABULARY = ["<|end|>", *[chr(code) for code in range(33, 127)], "Ġ", "th", "the", "Ġt", "Ċ", "ought"]
MERGES = ["t h", "th e", "Ġ t"]
SIZES: Any = {
    "vocab_size": len(VOCABULARY), "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "eos_token_id": 0,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500_000.0, "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip
MODELS: dict[str, Callable[[], Any]] = {
    "llama": lambda: config("llama", **SIZES),
    "llama of 3.2": lambda: config("llama", **SIZES, rope_parameters=LLAMA3, tie_word_embeddings=True),
    "qwen2": lambda: config("qwen2", **SIZES),
    "qwen3": lambda: config("qwen3", **SIZES, head_dim=32, tie_word_embeddings=True),
}
NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip


def gguf_name(name: str) -> str:
    module, _, kind = name.rpartition(".")
    if not module.startswith("model.layers."):
        return f"{NAMES[module]}.{kind}"
    _, _, index, inner = module.split(".", 3)
    return f"blk.{index}.{NAMES[inner]}.{kind}"


def in_pairs(weight: np.ndarray[Any, Any], num_heads: int) -> np.ndarray[Any, Any]:
    """Return a Llama's rows in llama.cpp's order, in which the two halves of each head alternate."""
    halves = weight.reshape(num_heads, 2, -1, *weight.shape[1:])
    return halves.swapaxes(1, 2).reshape(weight.shape)


def write_gguf(
    model: Any, file: Path, quantized: gguf.GGMLQuantizationType | None = None, words: str | None = "gpt-2"
) -> None:
    """Write the file as llama.cpp's own converter does.

    `quantized` is a type of fewer bits for the layers' matrices.
    """
    model_config = model.config
    writer = gguf.GGUFWriter(file, model_config.model_type)
    writer.add_context_length(model_config.max_position_embeddings)
    writer.add_embedding_length(model_config.hidden_size)
    writer.add_block_count(model_config.num_hidden_layers)
    writer.add_feed_forward_length(model_config.intermediate_size)
    writer.add_head_count(model_config.num_attention_heads)
    writer.add_head_count_kv(model_config.num_key_value_heads)
    writer.add_key_length(
        getattr(model_config, "head_dim", None) or model_config.hidden_size // model_config.num_attention_heads
    )
    writer.add_rope_freq_base(model_config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(model_config.rms_norm_eps)
    writer.add_tokenizer_model("gpt2")
    if words is not None:
        writer.add_tokenizer_pre(words)
    writer.add_token_list(VOCABULARY)
    writer.add_token_types([gguf.TokenType.CONTROL, *[gguf.TokenType.NORMAL] * (len(VOCABULARY) - 1)])
    writer.add_token_merges(MERGES)
    writer.add_eos_token_id(0)
    writer.add_chat_template("{{ messages }}")
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and model_config.tie_word_embeddings:
            continue
        array = tensor.float().numpy()
        if model_config.model_type == "llama" and ("q_proj" in name or "k_proj" in name):
            heads = model_config.num_attention_heads if "q_proj" in name else model_config.num_key_value_heads
            array = in_pairs(array, heads)
        if quantized is not None and "_proj.weight" in name:
            array = gguf.quantize(array, quantized)
            writer.add_tensor(gguf_name(name), array, raw_dtype=quantized)
        else:
            writer.add_tensor(gguf_name(name), np.ascontiguousarray(array))
    if model_config.rope_parameters["rope_type"] == "llama3":
        plain = 1 / model_config.rope_parameters["rope_theta"] ** (np.arange(0, 16, 2) / 16)
        writer.add_tensor("rope_freqs.weight", (plain / model.model.rotary_emb.inv_freq.numpy()).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


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
    "smollm": ["it", "'s", "Ġ", "2", "0", "2", "6", ",", "Ċ", "Ġthought"],
    "llama-bpe": ["it", "'s", "Ġ", "202", "6", ",Ċ", "Ġthought"],
    "qwen2": ["it", "'s", "Ġ", "2", "0", "2", "6", ",Ċ", "Ġthought"],
    "tekken": ["it", "'s", "Ġ", "2", "0", "2", "6", ",Ċ", "Ġthought"],
    "deepseek-coder": ["it", "'", "s", "Ġ", "2", "0", "2", "6", ",", "Ċ", "Ġthought"],
}


@pytest.mark.parametrize("words", WORDS)
def test_pre_tokenizer_of_the_file_is_converted(words: str, tmp_path: Path) -> None:
    """A pre-tokenizer that transformers doesn't know would otherwise split like GPT-2 and give other tokens."""
    write_gguf(random_model(MODELS["llama"]()), tmp_path / "tiny.gguf", words=words)
    tokenizer = tokenizers.Tokenizer.from_file(str(converted(tmp_path / "tiny.gguf") / "tokenizer.json"))
    assert [word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str("it's 2026,\n thought")] == WORDS[words]
    assert (tokenizer.encode("ought").tokens == ["ought"]) == (words in {"llama-bpe", "tekken"})
    assert (tokenizer.normalizer is not None) == (words == "qwen2")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("bloom", "its tokenizer cuts words as 'bloom' (tokenizer.ggml.pre); known are a.x-4.0, "),
        ("default", "it doesn't say how its tokenizer cuts words (tokenizer.ggml.pre)"),
        (None, "it doesn't say how its tokenizer cuts words (tokenizer.ggml.pre)"),
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
    writer = gguf.GGUFWriter(tmp_path / "other.gguf", "mamba")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (tmp_path / "there").mkdir()
    for words, message in (
        (["nowhere.gguf", "new"], "nowhere.gguf is not a file"),
        (["text.gguf", "new"], "text.gguf can't be read as GGUF"),
        (["other.gguf", "new"], "its architecture is mamba; converted are llama, qwen2, qwen3"),
        (["other.gguf", "there"], "there exists already"),
    ):
        assert main([str(tmp_path / word) for word in words]) == 1
        error = capsys.readouterr().err
        assert error.startswith("sluice: ")
        assert message in error
        assert error.count("\n") == 1
        assert not (tmp_path / "new").exists()
