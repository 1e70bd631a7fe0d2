"""Conversion of a model's folder to a GGUF file for llama.cpp, with the same weights, vocabulary and chat template.

Qwen2 and Qwen3, whose tensors keep the order of their rows, are written here, and others by llama.cpp's own converter.
llama.cpp has no pre-tokenizer like the
bundled one, so texts may be split into other tokens; `prompts.py` uses words that both split in the same way.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from safetensors import safe_open

from bench import shapes
from bench.engine.native.random_blocks import block_type, random_blocks

QUANTIZE = shapes.ROOT / ".cache" / "llama.cpp" / "llama-quantize"
_WRITTEN = ("qwen2", "qwen3")
_LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_OUTSIDE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def gguf_file(folder: Path, quantized: str) -> Path:
    """Return the folder's weights as a GGUF file, created once, in llama.cpp's type `quantized` or unconverted.

    llama.cpp's own program converts only experts to MXFP4, so a file of that type has random blocks.
    """
    plain = folder / "model.gguf"
    if not plain.is_file():
        building = plain.with_suffix(".building")
        if json.loads((folder / "config.json").read_text())["model_type"] in _WRITTEN:
            _write(folder, building)
        else:
            command = [sys.executable, "-m", "bench.serving.convert_folder", str(folder), str(building)]
            subprocess.run(command, check=True, cwd=shapes.ROOT)
        building.rename(plain)
    if not quantized:
        return plain
    small = folder / f"model-{quantized}.gguf"
    if quantized == "MXFP4" and not small.is_file():
        _write(folder, small.with_suffix(".building"), "mxfp4")
        small.with_suffix(".building").rename(small)
    if not small.is_file():
        # Without --pure, some tensors of a "Q4_0" file have larger types, as those of a "Q4_K_M" file should have.
        kinds = [] if quantized.endswith("_M") else ["--pure"]
        command = [str(QUANTIZE), *kinds, str(plain), str(small.with_suffix(".building")), quantized]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        small.with_suffix(".building").rename(small)
    return small


def _write(folder: Path, path: Path, kind: str | None = None) -> None:
    """Write a file of the folder's numbers, or of random blocks of `kind` instead of matrices."""
    config = json.loads((folder / "config.json").read_text())
    writer = gguf.GGUFWriter(path, config["model_type"])
    heads = config["num_attention_heads"]
    theta = config.get("rope_theta") or config["rope_parameters"]["rope_theta"]
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config["num_key_value_heads"])
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_freq_base(theta)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    _add_tokenizer(writer, folder, config)
    with safe_open(folder / "model.safetensors", "pt") as tensors:
        for name in tensors.keys():  # noqa: SIM118 it is no mapping
            _add_tensor(writer, gguf_name(name), tensors.get_tensor(name), kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def gguf_name(name: str) -> str:
    """Return the GGUF name of a checkpoint's tensor. Raise KeyError for a tensor that llama.cpp doesn't know."""
    module, _, kind = name.rpartition(".")
    if not module.startswith("model.layers."):
        return f"{_OUTSIDE[module]}.{kind}"
    index, _, inner = module.removeprefix("model.layers.").partition(".")
    return f"blk.{index}.{_LAYER[inner]}.{kind}"


def _add_tensor(writer: gguf.GGUFWriter, name: str, tensor: torch.Tensor, kind: str | None) -> None:
    if kind is not None and tensor.ndim > 1:
        blocks = random_blocks(kind, tensor.shape[0], tensor.shape[1], np.random.default_rng(0))
        writer.add_tensor(name, blocks, raw_dtype=block_type(kind))
    elif tensor.dtype == torch.bfloat16 and tensor.ndim > 1:
        raw = tensor.contiguous().view(torch.uint8).numpy()
        writer.add_tensor(name, raw, raw_dtype=gguf.GGMLQuantizationType.BF16)
    else:  # vectors are fp32 in GGUF
        writer.add_tensor(name, tensor.float().numpy())


def _add_tokenizer(writer: gguf.GGUFWriter, folder: Path, config: dict[str, Any]) -> None:
    data = json.loads((folder / "tokenizer.json").read_text())
    entries = {token_id: (text, gguf.TokenType.NORMAL) for text, token_id in data["model"]["vocab"].items()}
    for added in data["added_tokens"]:
        kind = gguf.TokenType.CONTROL if added["special"] else gguf.TokenType.USER_DEFINED
        entries[added["id"]] = (added["content"], kind)
    ordered = [entries[token_id] for token_id in range(config["vocab_size"])]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([text for text, _ in ordered])
    writer.add_token_types([kind for _, kind in ordered])
    writer.add_token_merges([" ".join(pair) for pair in data["model"]["merges"]])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_add_bos_token(False)
    writer.add_chat_template((folder / "chat_template.jinja").read_text())
