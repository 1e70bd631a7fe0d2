"""Choosing and loading a backend.

Owns the decision between the lean forward and transformers' modules. Called once per model, before the engine starts.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import torch
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoModelForCausalLM

from service.engine.models.backend import Backend
from service.engine.models.checkpoint import Checkpoint
from service.engine.models.decoder_shape import lean_refusal
from service.engine.models.load_decoder import load_decoder
from service.engine.models.modules_backend import ATTENTION, ModulesBackend, modules_refusal, register_attention
from service.generation.errors import ModelLoadError

_log = logging.getLogger(__name__)


def load_backend(
    config: Any, checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device, max_positions: int
) -> Backend:
    """Load the model that a transformers configuration describes. ModelLoadError if it can't be served."""
    if getattr(config, "quantization_config", None) is not None:
        raise ModelLoadError(f"{checkpoint.folder}: quantised weights can't be served")
    reason = lean_refusal(config)
    if reason is None:
        return load_decoder(config, checkpoint, dtype, device, max_positions)
    _log.info("%s runs on transformers' modules: %s", checkpoint.folder, reason)
    return _load_modules(config, checkpoint.folder, dtype, device)


def _load_modules(config: Any, folder: Path, dtype: torch.dtype, device: torch.device) -> Backend:
    model_class = MODEL_FOR_CAUSAL_LM_MAPPING.get(type(config), None)
    if model_class is None:
        raise ModelLoadError(f"the architecture {config.model_type} can't be served: it is no causal language model")
    refusal = modules_refusal(model_class, config)
    if refusal is not None:
        raise ModelLoadError(f"the architecture {config.model_type} can't be served: {refusal}")
    register_attention()
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder, config=config, dtype=dtype, attn_implementation=ATTENTION, output_loading_info=True
        )
        model, report = loaded
    except Exception as error:  # many kinds, none of which a caller could act upon differently
        raise ModelLoadError(f"{folder} can't be loaded: {error}") from error
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if report[kind]:
            raise ModelLoadError(f"{folder}: {kind.replace('_keys', '')} tensors: {sorted(map(str, report[kind]))[:5]}")
    return ModulesBackend(model.to(device))
