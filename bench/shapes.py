"""Model folders for benchmarks: the bundled model, and random weights of well-known shapes.

Random weights take the same time as trained ones. They are generated once, under .cache/bench, from a fixed seed, on
the CUDA device if there is one with enough memory.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import (
    Gemma3TextConfig,
    GptOssConfig,
    GraniteConfig,
    LlamaConfig,
    Phi3Config,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3Config,
    Qwen3MoeConfig,
)

from bench.random_model import random_model

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "demo" / "model"
QWEN2_5_0_5B = Qwen2Config(
    vocab_size=151_936,
    hidden_size=896,
    intermediate_size=4_864,
    num_hidden_layers=24,
    num_attention_heads=14,
    num_key_value_heads=2,
    max_position_embeddings=32_768,
    rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0},
    tie_word_embeddings=True,
    # Greedy decoding of random weights is unlikely to generate this token, so answers end by their length.
    bos_token_id=None,
    eos_token_id=151_935,
    pad_token_id=151_934,
)


LONG_24M = Qwen2Config(
    vocab_size=8_192,
    hidden_size=512,
    intermediate_size=1_536,
    num_hidden_layers=8,
    num_attention_heads=8,
    num_key_value_heads=2,
    max_position_embeddings=16_384,
    rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0},
    tie_word_embeddings=True,
    bos_token_id=None,
    eos_token_id=8_191,
    pad_token_id=8_190,
)

QWEN3_5M = Qwen3Config(
    vocab_size=2_048,
    hidden_size=256,
    intermediate_size=640,
    num_hidden_layers=6,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=64,
    max_position_embeddings=4_096,
    rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0},
    tie_word_embeddings=False,
    bos_token_id=None,
    eos_token_id=2_047,
    pad_token_id=0,
)


LLAMA_3_1_8B = LlamaConfig(
    vocab_size=128_256,
    hidden_size=4_096,
    intermediate_size=14_336,
    num_hidden_layers=32,
    num_attention_heads=32,
    num_key_value_heads=8,
    max_position_embeddings=131_072,
    rms_norm_eps=1e-5,
    rope_parameters={
        "rope_type": "llama3",
        "rope_theta": 500_000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8_192,
    },
    tie_word_embeddings=False,
    bos_token_id=None,
    eos_token_id=128_255,
    pad_token_id=128_254,
)

QWEN2_5_32B = Qwen2Config(
    vocab_size=152_064,
    hidden_size=5_120,
    intermediate_size=27_648,
    num_hidden_layers=64,
    num_attention_heads=40,
    num_key_value_heads=8,
    max_position_embeddings=32_768,
    rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0},
    tie_word_embeddings=False,
    bos_token_id=None,
    eos_token_id=152_063,
    pad_token_id=152_062,
)


def _special(vocab_size: int) -> dict[str, Any]:
    """Return ids of special tokens that greedy decoding of random weights is unlikely to generate."""
    return {"bos_token_id": None, "eos_token_id": vocab_size - 1, "pad_token_id": vocab_size - 2}


_GEMMA_VOCABULARY, _PHI_VOCABULARY, _EXPERT_VOCABULARY, _GRANITE_VOCABULARY = 262_144, 200_064, 65_536, 100_352
# Today's models, some of them cut so that a benchmark is short: Phi-4-mini to 8 layers; Qwen3-30B-A3B to 2 layers and
# 32 of its 128 experts, 0.5 B in all; gpt-oss to 4 layers and 16 of its 32 experts; both of these in their vocabulary.
FAMILIES: dict[str, PreTrainedConfig] = {
    "gemma-3-270m": Gemma3TextConfig(
        vocab_size=_GEMMA_VOCABULARY,
        hidden_size=640,
        intermediate_size=2_048,
        num_hidden_layers=18,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=256,
        sliding_window=512,
        max_position_embeddings=32_768,
        **_special(_GEMMA_VOCABULARY),
    ),
    "gemma-3-1b": Gemma3TextConfig(
        vocab_size=_GEMMA_VOCABULARY,
        hidden_size=1_152,
        intermediate_size=6_912,
        num_hidden_layers=26,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=256,
        sliding_window=512,
        max_position_embeddings=32_768,
        **_special(_GEMMA_VOCABULARY),
    ),
    "phi-4-mini-cut": Phi3Config(
        vocab_size=_PHI_VOCABULARY,
        hidden_size=3_072,
        intermediate_size=8_192,
        num_hidden_layers=8,
        num_attention_heads=24,
        num_key_value_heads=8,
        max_position_embeddings=4_096,
        original_max_position_embeddings=4_096,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.75},
        tie_word_embeddings=True,
        **_special(_PHI_VOCABULARY),
    ),
    "qwen3-moe-cut": Qwen3MoeConfig(
        vocab_size=_EXPERT_VOCABULARY,
        hidden_size=2_048,
        intermediate_size=6_144,
        moe_intermediate_size=768,
        num_hidden_layers=2,
        num_attention_heads=32,
        num_key_value_heads=4,
        head_dim=128,  # type: ignore[call-arg]  # no parameter, but the model reads it
        num_experts=32,
        num_experts_per_tok=4,
        norm_topk_prob=True,
        max_position_embeddings=32_768,
        rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0},
        tie_word_embeddings=True,
        **_special(_EXPERT_VOCABULARY),
    ),
    "gpt-oss-cut": GptOssConfig(
        vocab_size=_EXPERT_VOCABULARY,
        hidden_size=2_880,
        intermediate_size=2_880,
        num_hidden_layers=4,
        num_attention_heads=64,
        num_key_value_heads=8,
        head_dim=64,
        num_local_experts=16,
        num_experts_per_tok=4,
        sliding_window=128,
        **_special(_EXPERT_VOCABULARY),
    ),
    "granite-4.0-350m": GraniteConfig(
        vocab_size=_GRANITE_VOCABULARY,
        hidden_size=1_024,
        intermediate_size=2_048,
        num_hidden_layers=28,
        num_attention_heads=16,
        num_key_value_heads=4,
        max_position_embeddings=32_768,
        embedding_multiplier=1.0,  # with 12, random weights repeat the last token of the prompt, which has no text
        residual_multiplier=0.246,
        attention_multiplier=0.015625,
        logits_scaling=4.0,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000_000.0},
        tie_word_embeddings=True,
        **_special(_GRANITE_VOCABULARY),
    ),
}


def family(name: str) -> Path:
    """Return a folder with random bf16 weights of one of `FAMILIES`."""
    return random_weights(f"{name}-random", FAMILIES[name])


def qwen3_5m() -> Path:
    """Return a folder with random fp32 weights of the bundled model's width and six layers."""
    return random_weights("qwen3-5m-random", QWEN3_5M, torch.float32)


def qwen2_5_0_5b() -> Path:
    """Return a folder with random bf16 weights of Qwen2.5-0.5B's shape."""
    return random_weights("qwen2.5-0.5b-random", QWEN2_5_0_5B)


def llama_3_1_8b() -> Path:
    """Return a folder with random bf16 weights of Llama 3.1 8B's shape; takes 16 GB of disk, and of memory once."""
    return random_weights("llama-3.1-8b-random", LLAMA_3_1_8B)


def qwen2_5_32b() -> Path:
    """Return a folder with random bf16 weights of Qwen2.5-32B's shape; takes 66 GB of disk, and of memory once."""
    return random_weights("qwen2.5-32b-random", QWEN2_5_32B)


def long_24m() -> Path:
    """Return a folder with random bf16 weights of a small model with a context of 16,384 tokens."""
    return random_weights("long-24m-random", LONG_24M)


def random_weights(name: str, config: PreTrainedConfig, dtype: torch.dtype = torch.bfloat16) -> Path:
    """Return a folder with random weights of a shape and the bundled tokenizer, extended to its vocabulary."""
    folder = ROOT / ".cache" / "bench" / name
    if folder.is_dir():  # it is renamed to this when it is complete
        return folder
    building = folder.with_suffix(".building")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    for file in ("tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(DEMO / file, building / file)
    (building / "tokenizer.json").write_text(filled_up(DEMO / "tokenizer.json", config.vocab_size))
    torch.manual_seed(0)
    model = random_model(config, dtype)
    model.generation_config.eos_token_id = config.eos_token_id
    model.generation_config.do_sample = False
    model.save_pretrained(building)
    building.rename(folder)
    del model
    torch.cuda.empty_cache()  # the servers need the memory
    return folder


def demo() -> Path:
    """Return a copy of the bundled model, to whose folder other formats of it may be added."""
    folder = ROOT / ".cache" / "bench" / "demo"
    shutil.copytree(DEMO, folder, dirs_exist_ok=True)
    return folder


def demo_without_end() -> Path:
    """Return a copy of the bundled model whose answers only end by length, since the original's are short."""
    folder = ROOT / ".cache" / "bench" / "demo-without-end"
    shutil.copytree(DEMO, folder, dirs_exist_ok=True)
    for name in ("config.json", "generation_config.json"):
        settings = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(settings | {"eos_token_id": settings.get("vocab_size", 2_048) - 1}))
    return folder


def filled_up(tokenizer: Path, vocab_size: int) -> str:
    """Return the tokenizer's JSON with additional entries, so that every id of a larger vocabulary decodes.

    No text encodes to the additional entries.
    """
    data = json.loads(tokenizer.read_text())
    vocabulary = data["model"]["vocab"]
    vocabulary |= {token["content"]: token["id"] for token in data["added_tokens"]}
    taken = set(vocabulary.values())
    vocabulary |= {f"w{token_id}": token_id for token_id in range(vocab_size) if token_id not in taken}
    text = json.dumps(data, ensure_ascii=False)
    Tokenizer.from_str(text)  # raises if it is invalid
    return text
