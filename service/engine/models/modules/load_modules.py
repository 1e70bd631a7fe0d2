"""Load a model implementation of transformers, with the paged cache if its attention supports it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING

from service.engine.models.checkpoint.families.family_config import FamilyConfig
from service.engine.models.checkpoint.model_config import BertConfig, DecoderConfig, read_transformers_config
from service.engine.models.checkpoint.packed.packed_checkpoint import PackedCheckpoint, quantization_of
from service.engine.models.checkpoint.text_part import text_config
from service.engine.models.interface.backend import Backend
from service.engine.models.modules.modules_backend import ModulesBackend
from service.engine.models.modules.paged_attention import ATTENTION, UnpagedError, register_attention
from service.engine.models.modules.rows_backend import RowsBackend
from service.engine.models.modules.unsupported import unsupported_reason
from service.engine.models.torch.layers.ops import as_tensor
from service.generation.errors import ModelLoadError

_PAGED_LAYERS = {"full_attention", "sliding_attention", "attention"}

_log = logging.getLogger(__name__)


def modules_unsupported_reason(config: Any, folder: Path) -> str | None:
    """Return why transformers' implementation of a model is not supported, judging by its configuration, or None."""
    config = _of_transformers(config, folder)
    if _class_of(config) is None:
        return "it is no causal language model"
    return unsupported_reason(text_config(config), config.model_type)


def load_modules(config: Any, folder: Path, dtype: str, device: str) -> Backend[Tensor]:
    """Load a model for which `modules_unsupported_reason` is None. Raise ModelLoadError if that fails.

    If its attention can be replaced, it runs over the paged cache; otherwise texts are computed one after the other.
    """
    register_attention()
    config = _of_transformers(config, folder)
    model_class = _class_of(config)
    reason = _unpaged_reason(text_config(config), model_class)
    attention = {} if reason else {"attn_implementation": ATTENTION}
    try:
        loaded: Any = model_class.from_pretrained(
            **_weights(folder, getattr(torch, dtype)),
            config=config,
            dtype=getattr(torch, dtype),
            output_loading_info=True,
            **attention,
        )
        model, report = loaded
    except Exception as error:  # any error means that the model cannot be loaded
        raise ModelLoadError(f"{folder} can't be loaded: {error}") from error
    check_report(report, folder)
    model = model.to(device)
    if reason is None:
        try:
            return ModulesBackend(model)
        except UnpagedError as error:
            reason = str(error)
            model.set_attn_implementation("sdpa" if getattr(model, "_supports_sdpa", False) else "eager")
    _log.info("%s: texts are computed one at a time, without batching: %s", folder, reason)
    return RowsBackend(model)


def _unpaged_reason(config: Any, model_class: Any) -> str | None:
    """Return why a model's attention cannot run over the paged cache, judging by its class, or None."""
    layers = set(getattr(config, "layer_types", None) or ()) - _PAGED_LAYERS
    reasons = (
        (getattr(model_class, "_is_stateful", False), "it keeps a recurrent state"),
        (not getattr(model_class, "_supports_attention_backend", False), "its attention can't be replaced"),
        (layers, f"it has {', '.join(sorted(layers))} layers"),
    )
    return next((reason for applies, reason in reasons if applies), None)


def _weights(folder: Path, dtype: torch.dtype) -> dict[str, Any]:
    """Return transformers' weight arguments: the folder or, for packed weights, all weights dequantized."""
    quantization = quantization_of(folder)
    if quantization is None:
        return {"pretrained_model_name_or_path": folder}
    checkpoint = PackedCheckpoint(folder, None, quantization)
    tensors = {}
    for name, shape, _ in checkpoint.describe():
        tensor = as_tensor(checkpoint.take(name, shape))
        # Tensors that are not packed keep their type, because the model may need a wide one.
        tensors[name] = tensor.to(dtype) if checkpoint.is_packed(name) else tensor
    return {"pretrained_model_name_or_path": None, "state_dict": tensors}


def check_report(report: dict[str, Any], folder: Path) -> None:
    """Raise ModelLoadError if transformers' load report lists missing, unexpected or mismatched tensors."""
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if report[kind]:
            raise ModelLoadError(f"{folder}: {kind.replace('_keys', '')} tensors: {sorted(map(str, report[kind]))[:5]}")


def _class_of(config: Any) -> Any:
    """Return the model class that generates text for a configuration, or None.

    For a multimodal model it is the class of the whole model, whose tensor names are those of the files.
    """
    mappings = (MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING)
    if text_config(config) is not config:
        mappings = mappings[::-1]
    return next((found for mapping in mappings if (found := mapping.get(type(config), None)) is not None), None)


def _of_transformers(config: Any, folder: Path) -> Any:
    is_whole = not (isinstance(config, DecoderConfig | FamilyConfig | BertConfig) or getattr(config, "is_part", False))
    return config if is_whole else read_transformers_config(folder)
