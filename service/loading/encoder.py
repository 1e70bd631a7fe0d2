"""Load an encoder or a cross-encoder from its settings, on a worker thread."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from service.engine.building.engines import build_cross_encoder, build_encoder
from service.engine.interface.description import EncoderDescription, ModelInfo
from service.engine.interface.port import StepObserver
from service.generation.errors import ModelLoadError
from service.prompts.embeddings.embedding import EmbeddingPrompts, EncoderForm
from service.prompts.pairs.framed_pairs import FramedPairs
from service.prompts.pairs.pair_reader import PairReader
from service.prompts.pairs.templated_pairs import TemplatedPairs
from service.ranking.cross_encoder import CrossEncoderRanker
from service.registry.description import ModelDescription, Task
from service.registry.model_files import ModelFiles
from service.registry.models import ServedCrossEncoder, ServedEncoder
from service.settings.model_settings import ModelSettings


def load_encoder(
    settings: ModelSettings, folder: Path, observer: StepObserver, *, is_asleep: bool = False
) -> ServedEncoder:
    """Load the encoder of `folder`, or with `is_asleep` all but its weights; its engine is not started.

    `settings` must have every value filled in. Raise ModelLoadError.
    """
    assert settings.dtype and settings.device and settings.engine  # noqa: S101, PT018
    if settings.rank is not None:
        raise ModelLoadError(f"{folder}: the setting `rank` is for models that generate or have a classifier")
    built = build_encoder(
        folder,
        settings.engine,
        compute_dtype=settings.dtype,
        device=settings.device,
        observer=observer,
        is_asleep=is_asleep,
    )
    try:
        prompts = EmbeddingPrompts(
            built.tokenizer, built.info.max_model_len, built.num_dimensions, _form(settings, built.description)
        )
    except ValueError as error:
        raise ModelLoadError(f"{folder}: {error}") from error
    description = _description(settings, built.info, (Task.EMBEDDING, Task.RANK), built.num_dimensions)
    return ServedEncoder(description, built.engine, prompts, built.tokenizer, ModelFiles(folder))


def load_cross_encoder(
    settings: ModelSettings, folder: Path, observer: StepObserver, *, is_asleep: bool = False
) -> ServedCrossEncoder:
    """Load the cross-encoder of `folder`, or with `is_asleep` all but its weights; its engine is not started.

    `settings` must have every value filled in. Raise ModelLoadError.
    """
    assert settings.dtype and settings.device and settings.engine  # noqa: S101, PT018
    built = build_cross_encoder(
        folder,
        settings.engine,
        compute_dtype=settings.dtype,
        device=settings.device,
        observer=observer,
        is_asleep=is_asleep,
    )
    rank, longest = settings.rank, built.info.max_model_len
    reader: PairReader
    try:
        if rank is None:
            reader = FramedPairs(built.tokenizer, longest)
        else:
            reader = TemplatedPairs(built.tokenizer, rank.prompt, rank.instruction, longest)
    except ValueError as error:
        raise ModelLoadError(f"{folder}: {error}") from error
    ranker = CrossEncoderRanker(built.engine, reader, built.activation)
    description = _description(settings, built.info, (Task.RANK,))
    return ServedCrossEncoder(description, built.engine, ranker, built.tokenizer)


def _form(settings: ModelSettings, about: EncoderDescription) -> EncoderForm:
    """Return the properties of an encoder's texts and vectors."""
    chosen = settings.embedding.dimensions
    dimensions = about.dimensions if chosen is None else (None if chosen == "any" else sorted(chosen))
    return EncoderForm(about.lowers_case, about.prompts, about.default_prompt, dimensions)


def _description(
    settings: ModelSettings, info: ModelInfo, tasks: Sequence[Task], num_dimensions: int = 0
) -> ModelDescription:
    """Return a model's description for clients."""
    return ModelDescription(
        name=settings.name,
        version=settings.version,
        created_ns=time.time_ns(),
        tasks=tasks,
        architecture=info.architecture,
        max_model_len=info.max_model_len,
        vocab_size=info.vocab_size,
        num_parameters=info.num_parameters,
        dtype=info.dtype,
        fingerprint=info.fingerprint,
        embedding_dimensions=num_dimensions,
    )
