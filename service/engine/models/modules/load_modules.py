"""Load a model's own modules from transformers, over the paged cache if they can use it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING

from service.engine.models.backend import Backend
from service.engine.models.checkpoint.model_config import BertConfig, DecoderConfig, read_transformers_config
from service.engine.models.checkpoint.packed_checkpoint import PackedCheckpoint, quantization_of
from service.engine.models.checkpoint.text_part import text_config
from service.engine.models.modules.modules_backend import ModulesBackend
from service.engine.models.modules.paged_attention import ATTENTION, UnpagedError, register_attention
from service.engine.models.modules.rows_backend import RowsBackend
from service.engine.models.modules.unsupported import unsupported_reason
from service.engine.models.torch.ops import as_tensor
from service.generation.errors import ModelLoadError

_PAGED_LAYERS = {"full_attention", "sliding_attention", "attention"}

_log = logging.getLogger(__name__)


def modules_refusal(config: Any, folder: Path) -> str | None:
    """Why a model can't be served by its own modules, as far as its configuration tells; None if it doesn't."""
    config = _of_transformers(config, folder)
    if _class_of(config) is None:
        return "it is no causal language model"
    return unsupported_reason(text_config(config), config.model_type)


def load_modules(config: Any, folder: Path, dtype: str, device: str) -> Backend[Tensor]:
    """Load a model that `modules_refusal` has no objection to. Raises ModelLoadError.

    Its attention runs over the paged cache where it can be replaced; else texts are computed one after the other.
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
    except Exception as error:  # many kinds, none of which a caller could act upon differently
        raise ModelLoadError(f"{folder} can't be loaded: {error}") from error
    check_report(report, folder)
    model = model.to(device)
    if reason is None:
        try:
            return ModulesBackend(model)
        except UnpagedError as error:
            reason = str(error)
            model.set_attn_implementation("sdpa" if getattr(model, "_supports_sdpa", False) else "eager")
    _log.info("%s: its texts are computed one after the other: %s", folder, reason)
    return RowsBackend(model)


def _unpaged_reason(config: Any, model_class: Any) -> str | None:
    """Why a model's attention can't run over the paged cache, as far as its class tells; None if it doesn't."""
    layers = set(getattr(config, "layer_types", None) or ()) - _PAGED_LAYERS
    reasons = (
        (getattr(model_class, "_is_stateful", False), "it keeps a recurrent state"),
        (not getattr(model_class, "_supports_attention_backend", False), "its attention can't be replaced"),
        (layers, f"it has {', '.join(sorted(layers))} layers"),
    )
    return next((reason for applies, reason in reasons if applies), None)


def _weights(folder: Path, dtype: torch.dtype) -> dict[str, Any]:
    """Where transformers takes weights from: the folder or, where they are packed in it, all of them widened."""
    said = quantization_of(folder)
    if said is None:
        return {"pretrained_model_name_or_path": folder}
    checkpoint = PackedCheckpoint(folder, None, said)
    tensors = {}
    for name, shape, _ in checkpoint.describe():
        tensor = as_tensor(checkpoint.take(name, shape))
        # What isn't packed may be kept wide by the model.
        tensors[name] = tensor.to(dtype) if checkpoint.is_packed(name) else tensor
    return {"pretrained_model_name_or_path": None, "state_dict": tensors}


def check_report(report: dict[str, Any], folder: Path) -> None:
    """Raise ModelLoadError if transformers' report of a load tells of tensors that don't fit."""
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if report[kind]:
            raise ModelLoadError(f"{folder}: {kind.replace('_keys', '')} tensors: {sorted(map(str, report[kind]))[:5]}")


def _class_of(config: Any) -> Any:
    """The class that generates text by a configuration; None if there is none.

    Of a model of several parts it is the whole's, whose tensors have the names of its files.
    """
    mappings = (MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING)
    if text_config(config) is not config:
        mappings = mappings[::-1]
    return next((found for mapping in mappings if (found := mapping.get(type(config), None)) is not None), None)


def _of_transformers(config: Any, folder: Path) -> Any:
    return read_transformers_config(folder) if isinstance(config, DecoderConfig | BertConfig) else config
