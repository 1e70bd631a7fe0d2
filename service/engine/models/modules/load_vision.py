"""Load a model that takes images, if its modules can use the paged cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoImageProcessor, AutoModelForImageTextToText

from service.engine.models.checkpoint.packed_checkpoint import quantization_of
from service.engine.models.modules.load_modules import check_report
from service.engine.models.modules.paged_attention import ATTENTION, register_attention
from service.engine.models.modules.vision_backend import VisionBackend
from service.generation.errors import ModelLoadError

VISION_TYPES = ("gemma3",)
_PROCESSORS = ("preprocessor_config.json", "processor_config.json")


def vision_refusal(config: Any, folder: Path) -> str | None:
    """Why a model can't take images; None if it can."""
    reasons = (
        (config.model_type not in VISION_TYPES, f"it takes no images, or is none of {', '.join(VISION_TYPES)}"),
        (quantization_of(folder) is not None, "its weights are quantised"),
        (not any((folder / name).is_file() for name in _PROCESSORS), f"its folder has no {' or '.join(_PROCESSORS)}"),
    )
    return next((reason for applies, reason in reasons if applies), None)


def load_vision(config: Any, folder: Path, dtype: str, device: str) -> VisionBackend:
    """Load a model that `vision_refusal` has no objection to. Raises ModelLoadError."""
    register_attention()
    try:
        processor: Any = AutoImageProcessor.from_pretrained(folder, backend="pil")  # type: ignore[no-untyped-call]
        loaded: Any = AutoModelForImageTextToText.from_pretrained(
            folder,
            config=config,
            dtype=getattr(torch, dtype),
            attn_implementation={"text_config": ATTENTION, "vision_config": "sdpa"},
            output_loading_info=True,
        )
        model, report = loaded
    except Exception as error:  # many kinds, none of which a caller could act upon differently
        raise ModelLoadError(f"{folder} can't be loaded: {error}") from error
    check_report(report, folder)
    return VisionBackend(model.to(device), processor)
