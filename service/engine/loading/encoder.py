"""Load an encoder or a cross-encoder, and derive its limits from its folder."""

from __future__ import annotations

import logging
from collections import abc
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from service.engine.core.encoder_core import EncoderCore, EncoderRunner
from service.engine.interface.config import EngineConfig
from service.engine.interface.description import ComputeDtype, CrossEncoderDescription, EncoderDescription, ModelInfo
from service.engine.link.engine_spec import BuiltCore
from service.engine.loading.model_source import (
    architecture_of,
    choose_device,
    choose_max_text_len,
    choose_num_threads,
    fingerprint,
)
from service.engine.models.checkpoint.checkpoint import Checkpoint
from service.engine.models.checkpoint.compute_dtype import choose_compute_dtype
from service.engine.models.checkpoint.encoders.pair_files import PairFiles
from service.engine.models.checkpoint.encoders.sentence_files import SentenceFiles
from service.engine.models.checkpoint.model_config import read_model_config, read_transformers_config
from service.engine.models.checkpoint.packed.packed_checkpoint import reject_packed
from service.engine.models.checkpoint.progress import load_progress
from service.engine.models.native.backend import native_arithmetic
from service.engine.models.native.encoder import (
    load_native_cross_encoder,
    load_native_encoder,
    native_encoder_unsupported_reason,
)
from service.engine.tokens.tokenizer import FastTokenizer
from service.generation.errors import ModelLoadError

_log = logging.getLogger(__name__)

# Tokens of a batch on a CPU. The native step computes as many tokens per second at 256 as at 1024, within 3 % (BERT of
# base size, one core, 20 and 200 tokens per text). With torch's modules MiniLM computes 8 % fewer at 256 than at 1024,
# and at 512 from 2 to 5 % fewer.
_NATIVE_BATCH_TOKENS, _MODULES_BATCH_TOKENS = 256, 512


class LoadedEncoder(EncoderRunner, Protocol):
    """A model that computes vectors; a cross-encoder's vectors are scores."""

    @property
    def num_dimensions(self) -> int:
        """The number of dimensions of each vector."""

    @property
    def max_positions(self) -> int | None:
        """The number of tokens that the model has positions for, or None if its positions are unlimited."""


@dataclass(frozen=True, slots=True)
class _EncoderFolder:
    """A model's folder, the folder of its transformer and tokenizer, and the checkpoints of its extra layers."""

    folder: Path
    body: Path
    max_length: int | None  # in tokens, as configured in the folder
    layers: abc.Sequence[Checkpoint] = ()


@dataclass(frozen=True, slots=True)
class _Source:
    """The inputs of a model's loader."""

    config: Any  # the result of `read_model_config`
    checkpoint: Checkpoint
    dtype: str
    device: str
    num_threads: int
    quantization: str | None

    @property
    def weight_type(self) -> str:
        """The type of the weights in memory."""
        return self.quantization or self.dtype


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A loaded model and its limits."""

    runner: LoadedEncoder
    config: EngineConfig
    info: ModelInfo

    def build(self, description: EncoderDescription | CrossEncoderDescription) -> BuiltCore:
        """Return the core that runs the model."""
        return BuiltCore(EncoderCore(self.runner, self.config.max_batch_tokens), description)


def load_encoder(folder: Path, config: EngineConfig, *, compute_dtype: ComputeDtype, device: str) -> BuiltCore:
    """Return a core that embeds with the encoder of `folder`. See `engines.build_encoder`."""
    files = SentenceFiles.read(folder)

    dense = [Checkpoint(each.folder) for each in files.dense]
    parts = _EncoderFolder(folder, files.body, files.max_seq_length, dense)
    loaded = _load(parts, config, compute_dtype, device, files)
    return loaded.build(
        EncoderDescription(
            config=loaded.config,
            info=loaded.info,
            body=files.body,
            num_dimensions=loaded.runner.num_dimensions,
            lowers_case=files.lowers_case,
            prompts=files.prompts,
            default_prompt=files.default_prompt,
            dimensions=files.dimensions,
        )
    )


def load_cross_encoder(folder: Path, config: EngineConfig, *, compute_dtype: ComputeDtype, device: str) -> BuiltCore:
    """Return a core that scores pairs with the cross-encoder of `folder`. See `engines.build_cross_encoder`."""
    files = PairFiles.read(folder)
    parts = _EncoderFolder(folder, files.body, files.max_length)
    loaded = _load(parts, config, compute_dtype, device, files)
    return loaded.build(CrossEncoderDescription(loaded.config, loaded.info, files.body, files.activation))


def _load(
    parts: _EncoderFolder,
    config: EngineConfig,
    compute_dtype: ComputeDtype,
    device: str,
    files: SentenceFiles | PairFiles,
) -> _Loaded:
    folder, body, layers = parts.folder, parts.body, parts.layers
    reject_packed(body)
    target = choose_device(device)
    model_config = read_model_config(body)
    tokenizer = FastTokenizer.from_folder(body)
    if tokenizer.vocab_size > model_config.vocab_size:
        raise ModelLoadError(
            f"{body}: the tokenizer has {tokenizer.vocab_size} ids, the model only {model_config.vocab_size}"
        )
    checkpoint = Checkpoint(body)
    config_files = sorted({*folder.glob("*.json"), *folder.glob("*/config.json")})
    dtype = choose_compute_dtype(compute_dtype, checkpoint.dtype, target)
    reason = native_encoder_unsupported_reason(
        model_config, dtype, target, files if isinstance(files, SentenceFiles) else None
    )
    if reason is not None:
        _log.info("%s: not supported by the native step: %s", folder, reason)
    reject_unsupported_quantization(folder, config.quantization, reason)
    num_threads = config.num_threads or choose_num_threads(checkpoint, target)
    with load_progress(str(folder), checkpoint.num_bytes) as on_read:
        checkpoint.on_read = on_read
        source = _Source(model_config, checkpoint, dtype, target, num_threads, config.quantization)
        runner = _load_native(files, source) if reason is None else _load_modules(files, source)
    max_model_len = choose_max_text_len(body, parts.max_length, runner.max_positions, config.max_model_len)
    resolved = replace(
        config,
        max_batch_tokens=_max_batch_tokens(config, target, is_native=reason is None),
        max_model_len=max_model_len,
        num_threads=num_threads,
    )
    described = [*(layer.digest() for layer in layers), *([native_arithmetic()] if reason is None else [])]
    info = ModelInfo(
        architecture=architecture_of(model_config),
        max_model_len=max_model_len,
        vocab_size=model_config.vocab_size,
        dtype=source.weight_type,
        device=target,
        num_parameters=checkpoint.num_parameters + sum(layer.num_parameters for layer in layers),
        is_invariant=reason is None,
        fingerprint=fingerprint(checkpoint, source.weight_type, *config_files, backend=" ".join(described)),
    )
    return _Loaded(runner, resolved, info)


def reject_unsupported_quantization(folder: Path, quantization: str | None, reason: str | None) -> None:
    """Raise ModelLoadError for a quantized encoder that the native step does not support for `reason`."""
    if quantization and reason is not None:
        raise ModelLoadError(
            f"{folder}: engine.quantization {quantization} is not supported for this encoder: {reason}"
        )


def _load_native(files: SentenceFiles | PairFiles, source: _Source) -> LoadedEncoder:
    config, checkpoint, weight_type = source.config, source.checkpoint, source.weight_type
    if isinstance(files, SentenceFiles):
        return load_native_encoder(config, checkpoint, files, weight_type, source.num_threads)
    return load_native_cross_encoder(
        config, checkpoint, weight_type, source.num_threads, has_segments=files.has_segments
    )


def _load_modules(files: SentenceFiles | PairFiles, source: _Source) -> LoadedEncoder:
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


def _max_batch_tokens(config: EngineConfig, device: str, *, is_native: bool) -> int:
    """Return the batch limit. On a CPU it is just large enough to be efficient, because requests wait for a batch."""
    if device != "cpu":
        return config.max_batch_tokens
    enough = _NATIVE_BATCH_TOKENS if is_native else _MODULES_BATCH_TOKENS
    return min(config.max_batch_tokens, max(enough, config.max_batch_sequences))
