"""Check an encoder or a cross-encoder without loading its weights, from its modules and its checkpoint's headers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModel, AutoModelForSequenceClassification

from service.engine.models.checkpoint.checkpoint import Checkpoint
from service.engine.models.checkpoint.gguf.gguf_checkpoint import open_gguf
from service.engine.models.checkpoint.model_config import read_transformers_config
from service.engine.models.encoders.encoder import UNUSED, max_positions_of, reject_unsupported
from service.generation.errors import ModelLoadError

_OLD_NAMES = {"gamma": "weight", "beta": "bias"}  # old names of norm weights


@dataclass(frozen=True, slots=True)
class EncoderPlan:
    """The configuration, checkpoint and number of positions of an encoder; None for unlimited positions."""

    config: Any
    checkpoint: Checkpoint
    max_positions: int | None


def plan_encoder(body: Path, *, is_cross_encoder: bool) -> EncoderPlan:
    """Build the modules on torch's meta device, without memory. Raise ModelLoadError if the weights do not fit."""
    config = read_transformers_config(body)
    reject_unsupported(body, config)
    checkpoint = open_gguf(body) or Checkpoint(body)
    kind: Any = AutoModelForSequenceClassification if is_cross_encoder else AutoModel
    try:
        with torch.device("meta"):
            model = kind.from_config(config)
    except Exception as error:  # any error means that the model cannot be loaded
        raise ModelLoadError(f"{body} can't be loaded: {error}") from error
    if not _renames_tensors(config.model_type):
        _check_tensors(body, model, checkpoint, () if is_cross_encoder else UNUSED)
    return EncoderPlan(config, checkpoint, max_positions_of(model))


def _check_tensors(body: Path, model: Any, checkpoint: Checkpoint, unused: tuple[str, ...]) -> None:
    """Raise ModelLoadError if the checkpoint lacks a weight of the modules, or has it in another shape.

    Names are compared without the model's prefix.
    """
    prefix = f"{model.base_model_prefix}."
    found = {_normalized_name(name, prefix): shape for name, shape, _ in checkpoint.describe()}
    tied = {_normalized_name(name, prefix) for name in getattr(model, "all_tied_weights_keys", None) or ()}
    needed = {_normalized_name(name, prefix): tuple(value.shape) for name, value in model.named_parameters()}
    needed = {name: shape for name, shape in needed.items() if not name.startswith(unused)} if unused else needed
    if missing := sorted(needed.keys() - found.keys() - tied):
        raise ModelLoadError(f"{body}: missing tensors: {missing[:5]}")
    if mismatched := sorted(name for name, shape in needed.items() if name in found and found[name] != shape):
        raise ModelLoadError(f"{body}: mismatched tensors: {mismatched[:5]}")


def _normalized_name(name: str, prefix: str) -> str:
    """Return a tensor's name without `prefix`, and with today's name of a norm's weight or bias."""
    *path, last = name.removeprefix(prefix).split(".")
    return ".".join([*path, _OLD_NAMES.get(last, last)])


def _renames_tensors(model_type: str) -> bool:
    """Return True if transformers renames checkpoint tensors; only a load can check such a model."""
    try:
        from transformers.conversion_mapping import get_checkpoint_conversion_mapping  # noqa: PLC0415  not in all versions
    except ImportError:
        return False
    return bool(get_checkpoint_conversion_mapping(model_type))  # type: ignore[no-untyped-call]
