"""Model folders: export of a trained network for `AutoModelForCausalLM`, and import.

A model folder has config.json, generation_config.json and model.safetensors (bf16).
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from demo.network import Network, Shape

CONTEXT = 2048
END_OF_TEXT, END_OF_TURN = 0, 2
"""Ids of `<|endoftext|>` and `<|im_end|>`: the tokenizer's first tokens are its control tokens."""

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


def config(shape: Shape) -> dict[str, Any]:
    """Return the config.json of a Qwen3 of this shape."""
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": shape.vocab_size,
        "hidden_size": shape.hidden_size,
        "num_hidden_layers": shape.num_hidden_layers,
        "intermediate_size": shape.intermediate_size,
        "num_attention_heads": shape.num_attention_heads,
        "num_key_value_heads": shape.num_key_value_heads,
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": shape.rms_norm_eps,
        "rope_theta": shape.rope_theta,
        "rope_scaling": None,
        "max_position_embeddings": CONTEXT,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "tie_word_embeddings": False,
        "use_sliding_window": False,
        "use_cache": True,
        "initializer_range": 0.02,
        "bos_token_id": None,
        "eos_token_id": END_OF_TURN,
        "pad_token_id": END_OF_TEXT,
        "dtype": "bfloat16",
    }


def write_config(shape: Shape, folder: Path) -> None:
    """Write config.json and generation_config.json; the defaults sample, as chat models do."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config(shape), indent=2) + "\n")
    generation = {
        "do_sample": True,
        "temperature": 0.3,
        "top_p": 0.9,
        "eos_token_id": [END_OF_TURN, END_OF_TEXT],
        "pad_token_id": END_OF_TEXT,
    }
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")


def export(network: Network, folder: Path, tokenizer_from: Path) -> None:
    """Write `network` in bf16 to `folder`, with its configuration and the tokenizer of `tokenizer_from`."""
    write_config(network.shape, folder)
    for name in TOKENIZER_FILES:
        if folder.resolve() != tokenizer_from.resolve():
            shutil.copyfile(tokenizer_from / name, folder / name)
    tensors = {name: tensor.detach().to(torch.bfloat16).contiguous() for name, tensor in network.state_dict().items()}
    whole = folder / "model.safetensors"
    partial = whole.with_suffix(".partial")
    save_file(tensors, partial, metadata={"format": "pt"})
    partial.chmod(0o644)
    partial.replace(whole)


def restore(network: Network, file: Path) -> None:
    """Load the weights in `file` into `network`.

    Raise ValueError, with the file's name, if it is missing, incomplete, or of another architecture.
    """
    if not file.is_file():
        raise ValueError(f"{file} is missing")
    try:
        tensors = load_file(file)
    except SafetensorError as error:
        raise ValueError(f"{file} is broken: {error}") from None
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    wanted = {name: tensor.shape for name, tensor in network.state_dict().items()}
    for name in sorted(shapes.keys() | wanted.keys()):
        if shapes.get(name) != wanted.get(name):
            found, expected = (list(which[name]) if name in which else "missing" for which in (shapes, wanted))
            raise ValueError(f"{file} does not fit: {name} is {found}, not {expected}")
    network.load_state_dict(tensors)
