"""GGUF files of tiny random models, written as llama.cpp's own converter does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from tests.engine.folders.tiny_models import config

# Tokens that texts have by their names, with characters beyond the byte alphabet.
MARKED = {"<\uff5cUser\uff5c>": gguf.TokenType.CONTROL, "  ": gguf.TokenType.USER_DEFINED}
VOCABULARY = ["<|end|>", *[chr(code) for code in range(33, 127)], "Ġ", "th", "the", "Ġt", "Ċ", "ought", *MARKED]
TYPES = [gguf.TokenType.CONTROL, *[gguf.TokenType.NORMAL] * (len(VOCABULARY) - 1 - len(MARKED)), *MARKED.values()]
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
    model: Any,
    file: Path,
    quantized: gguf.GGMLQuantizationType | None = None,
    words: str | None = "gpt-2",
    *,
    adds_bos: bool | None = None,
    bos: str = "<|end|>",
) -> None:
    """Write the file as llama.cpp's own converter does.

    `quantized` is a type of fewer bits for the layers' matrices; `adds_bos` whether texts begin with the token `bos`.
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
    writer.add_token_types(TYPES)
    writer.add_token_merges(MERGES)
    writer.add_eos_token_id(0)
    writer.add_bos_token_id(VOCABULARY.index(bos))
    if adds_bos is not None:
        writer.add_add_bos_token(adds_bos)
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
