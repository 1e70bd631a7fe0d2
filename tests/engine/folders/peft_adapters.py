"""Adapters saved by PEFT, with weights that make their effects distinguishable, and the logits that PEFT computes."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.engine.folders.tiny_models import reference, reload

# Fields of LoraConfig: the modules that an adapter changes, and how it is scaled.
SHAPES: dict[str, dict[str, Any]] = {
    "all-linear": {},
    "attention": {"target_modules": ["q_proj", "v_proj"], "r": 3},
    "regex": {"target_modules": r".*\.layers\.[12]\..*\.(k_proj|down_proj)"},
    "patterns": {
        "rank_pattern": {"q_proj": 7, r"layers\.1\.mlp\.up_proj": 2},
        "alpha_pattern": {"v_proj": 32},
    },
    "rslora": {"use_rslora": True, "target_modules": ["o_proj", "gate_proj"]},
}


def save_adapter(base: Path, folder: Path, seed: int = 1, std: float = 0.15, **values: Any) -> Path:
    """Save an adapter of the base's folder as PEFT does.

    `values` are fields of LoraConfig, `std` is the standard deviation of the weights.
    """
    from peft import LoraConfig, get_peft_model  # noqa: PLC0415  it takes seconds

    torch.manual_seed(seed)
    options: dict[str, Any] = {"r": 4, "lora_alpha": 8, "target_modules": "all-linear", "task_type": "CAUSAL_LM"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about weight layouts, which do not matter here
        model = get_peft_model(reload(base, torch.float32), LoraConfig(**{**options, **values}))
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(parameter, std=std)
    model.save_pretrained(str(folder))
    return folder


def merged(base: Path, folder: Path) -> Any:
    """Return the model into which PEFT merges the adapter."""
    from peft import PeftModel  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PeftModel.from_pretrained(reload(base, torch.float32), str(folder)).merge_and_unload()


def merged_reference(base: Path, folder: Path, token_ids: list[int]) -> Tensor:
    """Return the logits [tokens, vocabulary] of the model into which PEFT merges the adapter."""
    return reference(merged(base, folder), token_ids)
