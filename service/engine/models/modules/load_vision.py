"""Load a multimodal model that takes images, with the paged cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoImageProcessor, AutoModelForImageTextToText

from service.engine.models.checkpoint.packed.packed_checkpoint import quantization_of
from service.engine.models.checkpoint.text_part import IMAGE_TYPES, has_image_processor
from service.engine.models.modules.load_modules import check_report
from service.engine.models.modules.paged_attention import ATTENTION, register_attention
from service.engine.models.modules.vision_backend import VisionBackend
from service.generation.errors import ModelLoadError


def vision_unsupported_reason(config: Any, folder: Path) -> str | None:
    """Return why a model is not supported with images, or None if it is."""
    reasons = (
        (config.model_type not in IMAGE_TYPES, f"it takes no images, or is none of {', '.join(IMAGE_TYPES)}"),
        (quantization_of(folder) is not None, "its weights are quantised"),
        (not has_image_processor(folder), "its folder has no preprocessor_config.json or processor_config.json"),
    )
    return next((reason for applies, reason in reasons if applies), None)


def load_vision(config: Any, folder: Path, dtype: str, device: str) -> VisionBackend:
    """Load a model for which `vision_unsupported_reason` is None. Raise ModelLoadError if that fails."""
    register_attention()
    try:
        processor: Any = AutoImageProcessor.from_pretrained(  # type: ignore[no-untyped-call]
            folder, backend="pil", trust_remote_code=False
        )
        loaded: Any = AutoModelForImageTextToText.from_pretrained(
            folder,
            config=config,
            dtype=getattr(torch, dtype),
            attn_implementation={"text_config": ATTENTION, "vision_config": "sdpa"},
            output_loading_info=True,
        )
        model, report = loaded
    except Exception as error:  # any error means that the model cannot be loaded
        raise ModelLoadError(f"{folder} can't be loaded: {error}") from error
    check_report(report, folder)
    return VisionBackend(model.to(device), processor)
