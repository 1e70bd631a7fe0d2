"""A runner for encoder tests whose vectors can be computed by hand, and small encoders of real architectures."""

from __future__ import annotations

import json
from collections import abc
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers

from service.generation.requests.embedding import EmbeddingRequest, TokenIds, Vector
from tests.engine.byte_tokenizer import ByteTokenizer
from tests.engine.vectors import vector_of

NUM_DIMENSIONS = 4
VOCAB_SIZE = 258
BEGIN, FINISH = 256, 257


class FramedTokenizer(ByteTokenizer):
    """Token i is byte i. A text is enclosed in two control tokens if special tokens are added."""

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        ids = super().encode(text)
        return [BEGIN, *ids, FINISH] if add_special_tokens else ids


class HandRunner:
    """Computes `vector_of`, and records its batches."""

    def __init__(self) -> None:
        self.batches: list[list[list[int]]] = []

    def run(self, inputs: abc.Sequence[TokenIds], second_starts: abc.Sequence[int] = ()) -> list[Vector]:
        self.batches.append([each.tolist() for each in inputs])
        return [np.array(vector_of(each), dtype=np.float32) for each in inputs]


def ids(*lengths: int, token_id: int = 1) -> list[TokenIds]:
    """Return inputs of these lengths."""
    return [np.full(length, token_id, dtype=np.int64) for length in lengths]


def embedding(*lengths: int, token_id: int = 1, **fields: Any) -> EmbeddingRequest:
    """Return a request with inputs of these lengths."""
    return EmbeddingRequest(**{"request_id": "r", "inputs": ids(*lengths, token_id=token_id), **fields})


_SIZES: dict[str, Any] = {
    "vocab_size": 101,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 40,
}
_ROBERTA = {**_SIZES, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
CONFIGS: dict[str, Any] = {
    "bert": lambda: transformers.BertConfig(**_SIZES),
    "roberta": lambda: transformers.RobertaConfig(**_ROBERTA),
    "mpnet": lambda: transformers.MPNetConfig(**_ROBERTA),
    "distilbert": lambda: transformers.DistilBertConfig(
        vocab_size=101, dim=32, hidden_dim=48, n_layers=2, n_heads=4, max_position_embeddings=40
    ),
    "modernbert": lambda: transformers.ModernBertConfig(**_SIZES, pad_token_id=0, local_attention=8),
    "nomic_bert": lambda: transformers.NomicBertConfig(**_SIZES),
    "gte": lambda: transformers.GteConfig(**_SIZES),
    "jina_embeddings_v3": lambda: transformers.JinaEmbeddingsV3Config(**_SIZES),
    "qwen3": lambda: transformers.Qwen3Config(**_SIZES, num_key_value_heads=2, head_dim=8, pad_token_id=0),
}


def save_encoder(kind: str, folder: Path, **files: Any) -> Any:
    """Save a random encoder of `CONFIGS` with a tokenizer of the words w0, w1, …, and return its model.

    `files` are JSON files by their names without the suffix; `pooling` is 1_Pooling/config.json.
    """
    torch.manual_seed(0)
    model: Any = transformers.AutoModel.from_config(CONFIGS[kind]())  # type: ignore[no-untyped-call]
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, mean=float(parameter.dim() == 1), std=0.15)
    model.save_pretrained(folder)
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({f"w{i}": i for i in range(101)}, unk_token="w3"))  # noqa: S106
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    words.post_processor = tokenizers.processors.TemplateProcessing(
        single="w5 $A w6", special_tokens=[("w5", 5), ("w6", 6)]
    )
    words.save(str(folder / "tokenizer.json"))
    for name, value in files.items():
        file = folder / ("1_Pooling/config.json" if name == "pooling" else f"{name}.json")
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(value))
    return model.eval()


def modules(*kinds: str) -> list[dict[str, Any]]:
    """Return the content of modules.json for these modules."""
    paths = {"Transformer": "", "Pooling": "1_Pooling"}
    return [
        {"idx": index, "path": paths.get(kind, f"{index}_{kind}"), "type": f"sentence_transformers.models.{kind}"}
        for index, kind in enumerate(kinds)
    ]
