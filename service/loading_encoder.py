"""From an encoder's settings to an encoder that can be served.

Runs on a worker thread at start.
"""

from __future__ import annotations

import time
from pathlib import Path

from service.config import ModelSettings
from service.engine.engines import BuiltEncoder, build_encoder
from service.engine.port import StepObserver
from service.generation.errors import ModelLoadError
from service.prompts.embedding import EmbeddingPrompts
from service.registry.description import ModelDescription, Task
from service.registry.models import ServedEncoder


def load_encoder(settings: ModelSettings, folder: Path, observer: StepObserver) -> ServedEncoder:
    """Load the encoder of `folder`; its engine is not yet started.

    `settings` has every value filled in. Raises ModelLoadError.
    """
    assert settings.dtype and settings.device and settings.engine  # noqa: S101, PT018
    built = build_encoder(
        folder, settings.engine, compute_dtype=settings.dtype, device=settings.device, observer=observer
    )
    try:
        prompts = EmbeddingPrompts(
            built.tokenizer, built.info.max_model_len, built.num_dimensions, lowers_case=built.lowers_case
        )
    except ValueError as error:
        raise ModelLoadError(f"{folder}: {error}") from error
    return ServedEncoder(_description(settings, built), built.engine, prompts, built.tokenizer)


def _description(settings: ModelSettings, built: BuiltEncoder) -> ModelDescription:
    return ModelDescription(
        name=settings.name,
        version=settings.version,
        created_ns=time.time_ns(),
        tasks=(Task.EMBEDDING,),
        architecture=built.info.architecture,
        max_model_len=built.info.max_model_len,
        vocab_size=built.info.vocab_size,
        num_parameters=built.info.num_parameters,
        dtype=built.info.dtype,
        fingerprint=built.info.fingerprint,
        embedding_dimensions=built.num_dimensions,
    )
