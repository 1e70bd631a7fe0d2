"""Loading a model's own modules from transformers, and which of them can run over the paged cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING

from service.engine.models.model_config import DecoderConfig, read_transformers_config
from service.engine.models.modules_backend import ModulesBackend
from service.engine.models.paged_attention import ATTENTION, register_attention
from service.engine.models.text_part import text_config
from service.generation.errors import ModelLoadError

_SERVED_LAYERS = {"full_attention", "sliding_attention", "attention"}
_BATCH_BOUND_ROPES = {"dynamic", "longrope"}  # their frequencies depend on the longest position of the whole batch


def modules_refusal(config: Any, folder: Path) -> str | None:
    """Why a model can't run over the paged cache, as far as its configuration and class tell; None if they don't."""
    config = _of_transformers(config, folder)
    if getattr(config, "quantization_config", None) is not None:
        return "its weights are quantised"
    model_class = _class_of(config)
    config = text_config(config)
    if model_class is None:
        return "it is no causal language model"
    layers = set(getattr(config, "layer_types", None) or ()) - _SERVED_LAYERS
    ropes = _rope_types(getattr(config, "rope_parameters", None) or {}) & _BATCH_BOUND_ROPES
    reasons = (
        (getattr(model_class, "_is_stateful", False), "it keeps a recurrent state"),
        (not getattr(model_class, "_supports_attention_backend", False), "its attention can't be replaced"),
        (getattr(config, "is_encoder_decoder", False), "it is an encoder and a decoder"),
        (layers, f"it has {', '.join(sorted(layers))} layers"),
        (ropes, f"its {', '.join(ropes)} rotary positions depend on the other requests of a batch"),
    )
    return next((reason for applies, reason in reasons if applies), None)


def load_modules(config: Any, folder: Path, dtype: str, device: str) -> ModulesBackend:
    """Load a model that `modules_refusal` has no objection to. Raises ModelLoadError."""
    register_attention()
    config = _of_transformers(config, folder)
    try:
        loaded: Any = _class_of(config).from_pretrained(
            folder, config=config, dtype=getattr(torch, dtype), attn_implementation=ATTENTION, output_loading_info=True
        )
        model, report = loaded
    except Exception as error:  # many kinds, none of which a caller could act upon differently
        raise ModelLoadError(f"{folder} can't be loaded: {error}") from error
    check_report(report, folder)
    return ModulesBackend(model.to(device))


def check_report(report: dict[str, Any], folder: Path) -> None:
    """Raise ModelLoadError if transformers' report of a load tells of tensors that don't fit."""
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if report[kind]:
            raise ModelLoadError(f"{folder}: {kind.replace('_keys', '')} tensors: {sorted(map(str, report[kind]))[:5]}")


def _class_of(config: Any) -> Any:
    """The class that generates text by a configuration, from images too if it can; None if there is none."""
    mappings = (MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING)
    return next((found for mapping in mappings if (found := mapping.get(type(config), None)) is not None), None)


def _of_transformers(config: Any, folder: Path) -> Any:
    return read_transformers_config(folder) if isinstance(config, DecoderConfig) else config


def _rope_types(parameters: dict[str, Any]) -> set[str]:
    nested = [value for value in parameters.values() if isinstance(value, dict)]
    return {str(each.get("rope_type")) for each in (parameters, *nested)}
