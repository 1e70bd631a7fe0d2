"""Tiny random models of several architectures, their reference logits, and a driver that feeds a backend by hand."""

from __future__ import annotations

from collections import abc
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor
from transformers import AutoModelForCausalLM

from service.engine.core.batch import Batch
from service.engine.models.checkpoint.checkpoint import Checkpoint
from service.engine.models.interface.backend import Backend
from service.engine.models.interface.model_spec import AUTO, ModelSpec
from service.engine.models.selection.backends import choose_backend

torch.set_num_threads(1)
transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]

VOCAB_SIZE = 101
MAX_POSITIONS = 128
BLOCK_SIZE = 8  # tokens; too few for the native backend, so that "auto" is torch on every machine
NUM_BLOCKS = 40

_LLAMA: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": MAX_POSITIONS,
}


def config(kind: str, **values: Any) -> Any:
    """Return a transformers configuration."""
    return transformers.AutoConfig.for_model(kind, **values)


def _rope(rope_type: str, **parameters: float) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": rope_type, "rope_theta": 10_000.0, **parameters}}


LEAN: dict[str, Any] = {
    "llama": lambda: config("llama", **_LLAMA),
    "llama-tied": lambda: config("llama", **_LLAMA, tie_word_embeddings=True),
    "llama-biases": lambda: config("llama", **_LLAMA, attention_bias=True, mlp_bias=True),
    "llama-no-groups": lambda: config("llama", **{**_LLAMA, "num_key_value_heads": 4}),
    "llama-one-kv-head": lambda: config("llama", **{**_LLAMA, "num_key_value_heads": 1}),
    "llama-head-dim": lambda: config("llama", **_LLAMA, head_dim=24),
    "llama3-rope": lambda: config(
        "llama",
        **_LLAMA,
        **_rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32),
    ),
    "linear-rope": lambda: config("llama", **_LLAMA, **_rope("linear", factor=4.0)),
    "yarn-rope": lambda: config("llama", **_LLAMA, **_rope("yarn", factor=4.0, original_max_position_embeddings=32)),
    "qwen2": lambda: config("qwen2", **_LLAMA),
    "qwen2-tied": lambda: config("qwen2", **_LLAMA, tie_word_embeddings=True),
    "qwen3": lambda: config("qwen3", **_LLAMA, head_dim=32),
    "qwen3-tied": lambda: config("qwen3", **_LLAMA, head_dim=16, tie_word_embeddings=True),
}

MODULES: dict[str, Any] = {
    "gpt2": lambda: config(
        "gpt2",
        vocab_size=VOCAB_SIZE,
        n_embd=64,
        n_layer=3,
        n_head=4,
        n_positions=MAX_POSITIONS,
        eos_token_id=1,
        bos_token_id=1,
    ),
}

# Models of the torch decoder that transformers' modules run over the paged cache, too.
PLANNED: dict[str, Any] = {
    "gpt-neox": lambda: config(
        "gpt_neox", **{name: value for name, value in _LLAMA.items() if name != "num_key_value_heads"}
    ),
    "phi": lambda: config("phi", **_LLAMA),
    "mistral-window": lambda: config("mistral", **_LLAMA, sliding_window=11),
    "qwen2-window": lambda: config("qwen2", **_LLAMA, use_sliding_window=True, sliding_window=11, max_window_layers=1),
    "mixtral": lambda: config("mixtral", **_LLAMA, num_local_experts=4, num_experts_per_tok=2),
}

CONFIGS = LEAN | MODULES | PLANNED


def random_model(model_config: Any) -> Any:
    """Return transformers' own model of a configuration, with initial weights."""
    model: Any = AutoModelForCausalLM.from_config(model_config)  # type: ignore[no-untyped-call]
    return model.eval()


def save(name: str, folder: Path, dtype: torch.dtype = torch.float32) -> Any:
    """Save a random model of `CONFIGS`, and return it. Its weights are large enough for clearly different logits."""
    torch.manual_seed(0)
    model = random_model(CONFIGS[name]())
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, mean=float(parameter.dim() == 1), std=0.15)
    model = model.to(dtype)
    model.save_pretrained(folder)
    return model


def reload(folder: Path, dtype: torch.dtype) -> Any:
    """Load transformers' own model of a folder, computing in `dtype`."""
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    return model.eval()


@torch.inference_mode()
def reference(model: Any, token_ids: abc.Sequence[int]) -> Tensor:
    """Return transformers' own logits [tokens, vocabulary], float32."""
    logits: Tensor = model(input_ids=torch.tensor([list(token_ids)]), use_cache=False).logits[0].float()
    return logits


def spec(
    folder: Path,
    dtype: torch.dtype = torch.float32,
    model_config: Any = None,
    block_size: int = BLOCK_SIZE,
    kv_cache_dtype: str = AUTO,
) -> ModelSpec:
    """Return the specification of the folder's backend on the CPU, by default with the folder's configuration."""
    model_config = model_config or transformers.AutoConfig.from_pretrained(folder)
    return ModelSpec(
        model_config,
        Checkpoint(folder),
        str(dtype).removeprefix("torch."),
        "cpu",
        MAX_POSITIONS,
        block_size,
        kv_cache_dtype=kv_cache_dtype,
    )


def load(
    folder: Path,
    dtype: torch.dtype = torch.float32,
    backend: str = AUTO,
    block_size: int = BLOCK_SIZE,
    kv_cache_dtype: str = AUTO,
) -> Backend[Any]:
    """Load the folder's backend, with its cache."""
    source = spec(folder, dtype, block_size=block_size, kv_cache_dtype=kv_cache_dtype)
    loaded = choose_backend(source, backend).load(source)
    loaded.allocate(NUM_BLOCKS, block_size)
    return loaded


def tokens(count: int, seed: int = 0) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(VOCAB_SIZE, (count,), generator=generator).tolist()


@dataclass(frozen=True)
class Part:
    """Tokens `start` to `end - 1` of one sequence, which is stored in the blocks of `table`."""

    token_ids: abc.Sequence[int]
    start: int
    end: int
    table: list[int]
    adapter: int = -1  # its slot, -1 for none


def batch_of(parts: abc.Sequence[Part], block_size: int = BLOCK_SIZE) -> Batch:
    """Return the parts as one batch with logits for every row."""
    counts = [part.end - part.start for part in parts]
    num_used = [-(-part.end // block_size) for part in parts]
    tables = [
        [*part.table[:used], *part.table[:1] * (max(num_used) - used)]
        for part, used in zip(parts, num_used, strict=True)
    ]

    def int32s(values: Any) -> Any:
        return np.array(values, dtype=np.int32)

    return Batch(
        token_ids=int32s([token_id for part in parts for token_id in part.token_ids[part.start : part.end]]),
        positions=int32s([position for part in parts for position in range(part.start, part.end)]),
        row_offsets=int32s([0, *accumulate(counts)]),
        context_lengths=int32s([part.end for part in parts]),
        block_tables=int32s(tables),
        output_rows=int32s(range(sum(counts))),
        adapters=int32s([part.adapter for part in parts]) if any(part.adapter >= 0 for part in parts) else None,
    )


def run(backend: Backend[Any], parts: abc.Sequence[Part], block_size: int = BLOCK_SIZE) -> list[Tensor]:
    """Compute the parts as one batch, and return the logits of each part's tokens."""
    batch = batch_of(parts, block_size)
    logits = torch.as_tensor(backend.forward(batch))
    return [logits[start:end] for start, end in pairwise(batch.row_offsets.tolist())]
