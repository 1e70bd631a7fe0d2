"""Small random cross-encoders, saved as sentence-transformers does, and their scores computed by transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers

from tests.engine.encoder_fakes import CONFIGS

PAIRS = [
    ("w10 w11", "w12 w13 w14"),
    ("w10 w11 w12 w13", "w20"),
    ("w9", "w30 w31 w32 w33 w34 w35 w36 w37 w38"),
    ("w40 w41", "w42 w43"),
]


def save_cross_encoder(kind: str, folder: Path, *, num_labels: int = 1, **files: Any) -> Any:
    """Save an encoder of `CONFIGS` with a classifier and a tokenizer of the words w0, w1, …, and return its model.

    `files` are JSON files by their names without the suffix; `config` is merged into the saved file.
    """
    torch.manual_seed(0)
    config = CONFIGS[kind]()
    config.num_labels = num_labels
    model: Any = transformers.AutoModelForSequenceClassification.from_config(config)  # type: ignore[no-untyped-call]
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, mean=float(parameter.dim() == 1), std=0.15)
    model.save_pretrained(folder)
    save_pair_tokenizer(folder)
    for name, value in files.items():
        file = folder / f"{name}.json"
        data = json.loads(file.read_text()) if name == "config" else {}
        file.write_text(json.dumps(data | value))
    return model.eval()


def save_pair_tokenizer(folder: Path) -> None:
    """Save a tokenizer that writes `w5 first w6 second w6` and marks the second text with type 1, as BERT's does."""
    words = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({f"w{i}": i for i in range(101)} | {"a": 99}, unk_token="w3")  # noqa: S106
    )
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    words.post_processor = tokenizers.processors.TemplateProcessing(
        single="w5 $A w6", pair="w5 $A w6 $B:1 w6:1", special_tokens=[("w5", 5), ("w6", 6)]
    )
    words.save(str(folder / "tokenizer.json"))


@torch.inference_mode()
def reference_scores(
    folder: Path, model: Any, pairs: list[tuple[str, str]], max_length: int | None = None
) -> list[float]:
    """Return the score of each pair before activation, computed separately.

    Pairs are tokenized by transformers as sentence-transformers' CrossEncoder does.
    """
    tokenizer: Any = transformers.PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_file=str(folder / "tokenizer.json")
    )
    scores = []
    for first, second in pairs:
        encoded = tokenizer(
            first,
            second,
            truncation=max_length is not None,
            max_length=max_length,
            return_tensors="pt",
            return_token_type_ids=True,
        )
        inputs = {"input_ids": encoded["input_ids"]}
        if getattr(model.config, "type_vocab_size", 0) > 1:
            inputs["token_type_ids"] = encoded["token_type_ids"]
        scores.append(float(model(**inputs).logits[0, 0]))
    return scores
