"""Load an encoder or a cross-encoder, or describe it from its files without its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from service.engine.core.encoder_core import EncoderCore, EncoderRunner
from service.engine.interface.config import EngineConfig
from service.engine.interface.description import ComputeDtype, CrossEncoderDescription, EncoderDescription
from service.engine.link.engine_spec import BuiltCore
from service.engine.loading.encoder_source import EncoderSource
from service.engine.models.checkpoint.encoders.pair_files import PairFiles
from service.engine.models.checkpoint.encoders.sentence_files import SentenceFiles
from service.engine.models.checkpoint.model_config import read_transformers_config
from service.engine.models.checkpoint.progress import load_progress
from service.engine.models.checkpoint.text_part import text_config
from service.engine.models.native.encoder import (
    load_native_cross_encoder,
    load_native_encoder,
    native_max_positions,
)


class LoadedEncoder(EncoderRunner, Protocol):
    """A model that computes vectors; a cross-encoder's vectors are scores."""

    @property
    def num_dimensions(self) -> int:
        """The number of dimensions of each vector."""

    @property
    def max_positions(self) -> int | None:
        """The number of tokens that the model has positions for, or None if its positions are unlimited."""


def load_encoder(folder: Path, config: EngineConfig, *, compute_dtype: ComputeDtype, device: str) -> BuiltCore:
    """Return a core that embeds with the encoder of `folder`. See `engines.build_encoder`."""
    files = SentenceFiles.read(folder)
    source = EncoderSource.read(folder, files, config, compute_dtype, device)
    runner = _load(files, source)
    description = _encoder(files, source, runner.max_positions, runner.num_dimensions)
    return BuiltCore(EncoderCore(runner, description.config.max_batch_tokens), description)


def plan_encoder(folder: Path, config: EngineConfig, *, compute_dtype: ComputeDtype, device: str) -> EncoderDescription:
    """Return what `load_encoder` will report, without the weights. Raise ModelLoadError if a file is unusable."""
    files = SentenceFiles.read(folder)
    source = EncoderSource.read(folder, files, config, compute_dtype, device)
    hidden_size = text_config(source.model_config).hidden_size
    num_dimensions = files.dense[-1].num_outputs if files.dense else hidden_size
    return _encoder(files, source, _max_positions(files, source), num_dimensions)


def load_cross_encoder(folder: Path, config: EngineConfig, *, compute_dtype: ComputeDtype, device: str) -> BuiltCore:
    """Return a core that scores pairs with the cross-encoder of `folder`. See `engines.build_cross_encoder`."""
    files = PairFiles.read(folder)
    source = EncoderSource.read(folder, files, config, compute_dtype, device)
    runner = _load(files, source)
    description = _cross_encoder(files, source, runner.max_positions)
    return BuiltCore(EncoderCore(runner, description.config.max_batch_tokens), description)


def plan_cross_encoder(
    folder: Path, config: EngineConfig, *, compute_dtype: ComputeDtype, device: str
) -> CrossEncoderDescription:
    """Return what `load_cross_encoder` will report, without the weights. Raise ModelLoadError."""
    files = PairFiles.read(folder)
    source = EncoderSource.read(folder, files, config, compute_dtype, device)
    return _cross_encoder(files, source, _max_positions(files, source))


def _encoder(
    files: SentenceFiles, source: EncoderSource, max_positions: int | None, num_dimensions: int
) -> EncoderDescription:
    """Return the description of an encoder with that number of positions; None if they are unlimited."""
    config, info = source.limits(max_positions)
    return EncoderDescription(
        config=config,
        info=info,
        body=files.body,
        num_dimensions=num_dimensions,
        lowers_case=files.lowers_case,
        prompts=files.prompts,
        default_prompt=files.default_prompt,
        dimensions=files.dimensions,
    )


def _cross_encoder(files: PairFiles, source: EncoderSource, max_positions: int | None) -> CrossEncoderDescription:
    """Return the description of a cross-encoder with that number of positions; None if they are unlimited."""
    config, info = source.limits(max_positions)
    return CrossEncoderDescription(config, info, files.body, files.activation)


def _load(files: SentenceFiles | PairFiles, source: EncoderSource) -> LoadedEncoder:
    """Read the weights. Raise ModelLoadError if that fails."""
    with load_progress(str(source.folder), source.checkpoint.num_bytes) as on_read:
        source.checkpoint.on_read = on_read
        return _load_native(files, source) if source.is_native else _load_modules(files, source)


def _max_positions(files: SentenceFiles | PairFiles, source: EncoderSource) -> int | None:
    """Return the number of tokens that the model has positions for, or None if its positions are unlimited."""
    if source.is_native:
        return native_max_positions(source.model_config)
    # Imported here, because it imports torch and transformers' models.
    from service.engine.models.encoders.encoder_plan import plan_encoder as plan_modules  # noqa: PLC0415

    return plan_modules(files.body, is_cross_encoder=isinstance(files, PairFiles)).max_positions


def _load_native(files: SentenceFiles | PairFiles, source: EncoderSource) -> LoadedEncoder:
    config, checkpoint, weight_type = source.model_config, source.checkpoint, source.weight_type
    if isinstance(files, SentenceFiles):
        return load_native_encoder(config, checkpoint, files, weight_type, source.num_threads)
    return load_native_cross_encoder(
        config, checkpoint, weight_type, source.num_threads, has_segments=files.has_segments
    )


def _load_modules(files: SentenceFiles | PairFiles, source: EncoderSource) -> LoadedEncoder:
    # Imported here, because these modules import torch and transformers' models.
    from service.engine.models.encoders.cross_encoder import load_cross_encoder  # noqa: PLC0415
    from service.engine.models.encoders.encoder import load_encoder  # noqa: PLC0415
    from service.engine.runner.encoder_runner import BatchEncoder, PaddedEncoder  # noqa: PLC0415

    config = read_transformers_config(files.body)
    encoder: PaddedEncoder
    if isinstance(files, SentenceFiles):
        encoder = load_encoder(config, files, source.dtype, source.device)
    else:
        encoder = load_cross_encoder(config, files, source.dtype, source.device)
    return BatchEncoder(encoder, num_threads=source.num_threads)
