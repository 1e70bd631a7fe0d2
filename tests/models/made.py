"""Random models of an architecture in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING

from tests.models.comparison import save
from tests.models.shapes import small

transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
torch.set_num_threads(1)


def made(kind: str, folder: Path, **more: Any) -> Any:
    """Save a small random model of the type `kind`; return the model that transformers loads from the folder."""
    config = small(kind, **more)
    cls = class_of(config)
    torch.manual_seed(0)
    save(cls(config), folder)
    return cls.from_pretrained(folder, dtype=torch.float32).eval()


def class_of(config: Any) -> Any:
    """Return the class that saves a configuration's checkpoints: the whole model's, if it has several parts."""
    mappings = [MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING]
    if config.sub_configs:
        mappings.reverse()
    return next(found for mapping in mappings if (found := mapping.get(type(config), None)) is not None)
